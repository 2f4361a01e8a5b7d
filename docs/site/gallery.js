// The gallery's table: a click on a head sorts by it, the fields above leave rows out.
(() => {
  const table = document.querySelector(".zoo-table");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const [search, ...choices] = document.querySelectorAll(".zoo-filter input, .zoo-filter select");
  const value = (row, column) => {
    const cell = row.cells[column];
    if (!("value" in cell.dataset)) return cell.textContent.trim();
    return cell.dataset.value === "" ? -Infinity : Number(cell.dataset.value);
  };
  const sort = (column, down) => {
    rows.sort((a, b) => {
      const [x, y] = [value(a, column), value(b, column)];
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    body.append(...rows);
    [...table.tHead.rows[0].cells].forEach((head, place) => {
      head.setAttribute("aria-sort", place === column ? (down ? "descending" : "ascending") : "none");
    });
  };
  const filter = () => {
    let shown = 0;
    for (const row of rows) {
      const named = row.cells[0].textContent.toLowerCase().includes(search.value.trim().toLowerCase());
      const chosen = choices.every((c) => !c.value || row.cells[c.dataset.column].textContent === c.value);
      row.hidden = !(named && chosen);
      shown += row.hidden ? 0 : 1;
    }
    document.querySelector(".zoo-count").textContent = `${shown} of ${rows.length}`;
  };
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    head.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      sort(column, before === "none" || !before ? column > 2 : before === "ascending");
    });
  });
  [search, ...choices].forEach((field) => field.addEventListener("input", filter));
  sort(3, true);
  filter();
})();
