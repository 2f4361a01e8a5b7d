// SimVAE's encoder and decoder, dense layers with ReLU between, and a canvas to draw on.
(async () => {
  const bytes = (text) => {
    const packed = new Blob([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))]);
    return new Response(packed.stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  };
  const half = (h) => {
    const sign = h & 0x8000 ? -1 : 1;
    const exponent = (h >> 10) & 31;
    const fraction = h & 1023;
    if (exponent === 0) return sign * fraction * 2 ** -24;
    return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  };
  const halves = Float32Array.from({ length: 65536 }, (_, h) => half(h));
  const read = async ({ units, kernel, bias }) => ({
    units,
    kernel: Float32Array.from(new Uint16Array(await bytes(kernel)), (h) => halves[h]),
    bias: new Float32Array(await bytes(bias)),
  });
  const encoder = await Promise.all(window.SIMVAE.encoder.map(read));
  const decoder = await Promise.all(window.SIMVAE.decoder.map(read));
  const features = new Float32Array(await bytes(window.SIMVAE.features));
  const { count, across } = window.SIMVAE;
  const size = features.length / count;

  const run = (network, inputs) =>
    network.reduce((x, { units, kernel, bias }, layer) => {
      const y = Float32Array.from(bias);
      x.forEach((value, row) => {
        if (value) for (let unit = 0; unit < units; unit++) y[unit] += value * kernel[row * units + unit];
      });
      return layer < network.length - 1 ? y.map((v) => Math.max(v, 0)) : y;
    }, inputs);
  const encode = (pixels) => run(encoder, Float32Array.from(pixels, (v) => (v > 127.5 ? 1 : 0)));
  const decode = (numbers) => run(decoder, Float32Array.from(numbers)).map((v) => 1 / (1 + Math.exp(-v)));
  const nearest = (numbers, k) => {
    const distance = (row) => numbers.reduce((sum, v, i) => sum + (v - features[row * size + i]) ** 2, 0);
    const rows = Array.from({ length: count }, (_, row) => [distance(row), row]);
    return rows.sort((a, b) => a[0] - b[0]).slice(0, k).map(([, row]) => row);
  };
  window.simvae = { encode, decode, nearest };

  const find = (id) => document.getElementById(`digit-${id}`);
  const [ink, seen, rebuilt] = ["ink", "seen", "rebuilt"].map(find);
  const pen = ink.getContext("2d", { willReadFrequently: true });
  const sheet = new Image();
  sheet.src = window.SIMVAE.sheet;

  const show = (canvas, values) => {
    const context = canvas.getContext("2d");
    const image = context.createImageData(28, 28);
    values.forEach((v, i) => image.data.set([v, v, v, 255], 4 * i));
    context.putImageData(image, 0, 0);
  };

  // Numbers and sliders
  const spread = Array.from({ length: size }, (_, i) => {
    const values = Array.from({ length: count }, (_, row) => features[row * size + i]);
    const mean = values.reduce((a, b) => a + b) / count;
    return [mean, Math.sqrt(values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / count)];
  });
  let numbers = Float32Array.from(spread, ([mean]) => mean);
  const sliders = spread.map(([mean, deviation], i) => {
    const label = document.createElement("label");
    const slider = document.createElement("input");
    Object.assign(slider, { type: "range", step: "any", min: mean - 3 * deviation, max: mean + 3 * deviation });
    slider.addEventListener("input", () => {
      numbers[i] = Number(slider.value);
      update();
    });
    label.append(`${i + 1}`, slider, document.createElement("output"));
    find("numbers").append(label);
    return slider;
  });
  const neighbors = Array.from({ length: 12 }, () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 28, height: 28 });
    find("near").append(canvas);
    return canvas;
  });

  const update = () => {
    sliders.forEach((slider, i) => {
      slider.value = numbers[i];
      slider.nextSibling.textContent = numbers[i].toFixed(2);
    });
    show(rebuilt, Array.from(decode(numbers), (v) => 255 * v));
    nearest(numbers, neighbors.length).forEach((row, place) => {
      const [x, y] = [28 * (row % across), 28 * Math.floor(row / across)];
      neighbors[place].getContext("2d").drawImage(sheet, x, y, 28, 28, 0, 0, 28, 28);
    });
  };

  // The drawing, as MNIST's digits were prepared: 20 pixels high or wide, center of mass in the middle
  const prepare = () => {
    const { width, height } = ink;
    const pixels = pen.getImageData(0, 0, width, height).data;
    let [left, top, right, bottom] = [width, height, -1, -1];
    for (let y = 0; y < height; y++)
      for (let x = 0; x < width; x++)
        if (pixels[4 * (y * width + x)] > 40) {
          [left, right] = [Math.min(left, x), Math.max(right, x)];
          [top, bottom] = [Math.min(top, y), Math.max(bottom, y)];
        }
    if (right < 0) return null;
    const scale = 20 / Math.max(right - left + 1, bottom - top + 1);
    const small = (dx, dy) => {
      const canvas = Object.assign(document.createElement("canvas"), { width: 28, height: 28 });
      const context = canvas.getContext("2d", { willReadFrequently: true });
      context.fillRect(0, 0, 28, 28);
      context.imageSmoothingQuality = "high";
      const [w, h] = [(right - left + 1) * scale, (bottom - top + 1) * scale];
      context.drawImage(ink, left, top, right - left + 1, bottom - top + 1, 14 - w / 2 + dx, 14 - h / 2 + dy, w, h);
      const data = context.getImageData(0, 0, 28, 28).data;
      return Float32Array.from({ length: 784 }, (_, i) => data[4 * i]);
    };
    const middle = small(0, 0);
    let [mass, mx, my] = [0, 0, 0];
    middle.forEach((v, i) => {
      mass += v;
      mx += v * ((i % 28) + 0.5);
      my += v * (Math.floor(i / 28) + 0.5);
    });
    return small(Math.round(14 - mx / mass), Math.round(14 - my / mass));
  };
  const look = () => {
    const pixels = prepare();
    if (!pixels) return;
    show(seen, Array.from(pixels, (v) => (v > 127.5 ? 255 : 0)));
    numbers = encode(pixels);
    update();
  };

  let isExample = false; // a test digit is on the canvas, which a first stroke wipes away
  const clear = () => {
    pen.fillStyle = "black";
    pen.fillRect(0, 0, ink.width, ink.height);
    isExample = false;
  };
  let last = null;
  const place = (event) => {
    const box = ink.getBoundingClientRect();
    return [((event.clientX - box.left) * ink.width) / box.width, ((event.clientY - box.top) * ink.height) / box.height];
  };
  ink.addEventListener("pointerdown", (event) => {
    ink.setPointerCapture(event.pointerId);
    if (isExample) clear();
    last = place(event);
  });
  ink.addEventListener("pointermove", (event) => {
    if (!last) return;
    const next = place(event);
    Object.assign(pen, { strokeStyle: "white", lineWidth: 22, lineCap: "round", lineJoin: "round" });
    pen.beginPath();
    pen.moveTo(...last);
    pen.lineTo(...next);
    pen.stroke();
    last = next;
    look();
  });
  for (const end of ["pointerup", "pointercancel"]) ink.addEventListener(end, () => (last = null));
  find("clear").addEventListener("click", clear);
  let example = 0;
  const showExample = () => {
    const [x, y] = [28 * (example % across), 28 * Math.floor(example / across)];
    clear();
    pen.imageSmoothingEnabled = true;
    pen.drawImage(sheet, x, y, 28, 28, 0, 0, 280, 280);
    numbers = features.slice(example * size, (example + 1) * size);
    seen.getContext("2d").drawImage(sheet, x, y, 28, 28, 0, 0, 28, 28);
    example = (example + 1) % count;
    isExample = true;
    update();
  };
  find("example").addEventListener("click", showExample);
  sheet.decode().then(showExample);
})();
