"""What constructors take by name, with what they hand up to their bases; and what of it a saved configuration keeps."""

import inspect


def arguments(cls: type, top: type) -> dict[str, inspect.Parameter]:
    """Arguments of the constructor of `cls`, those that it hands up to bases as far as `top` included, by name.

    What a class decides itself, and so does not take, it names in `without`.
    """
    known, left_out = {}, set()
    for base in cls.__mro__[: cls.__mro__.index(top) + 1]:
        if "__init__" in vars(base):
            named, others = _parameters(base)
            known = {name: named[name] for name in named if name not in left_out} | known
            if inspect.Parameter.VAR_KEYWORD not in others:
                break  # nothing is handed up
        left_out.update(vars(base).get("without", ()))
    return known


def kept(made: object, top: type, given: frozenset) -> list[str]:
    """Arguments by which an object is made again: those that its class names itself, or that were `given` by name.

    What is left, the class decides again as it did.
    """
    named, others = _parameters(type(made))
    hides = inspect.Parameter.VAR_POSITIONAL in others
    return [name for name in arguments(type(made), top) if hides or name in named or name in given]


def accepted(cls: type, config: dict) -> dict:
    """What of a saved configuration the constructor of `cls` takes: Keras adds a name and a dtype for each layer."""
    named, others = _parameters(cls)
    return {name: config[name] for name in config if name in named or inspect.Parameter.VAR_KEYWORD in others}


def _parameters(cls):
    """What the constructor of a class takes by name, and the kinds of what else it takes (*args, **kwargs)."""
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    named = {each.name: each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}
    return named, {each.kind for each in parameters if each.name not in named}
