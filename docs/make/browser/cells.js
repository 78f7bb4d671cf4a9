// The cells of a notebook: their code, their outputs, and the keys with which they run.

/** Make an element *name* with *properties* and *children*. */
function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** A cell with code. It calls *run* with itself when the reader asks for it. */
class CodeCell {
  constructor(source, label, run) {
    this.number = element("span", { className: "number", textContent: "[ ]" });
    this.button = element("button", { textContent: "Run", title: "Shift+Enter in the code", onclick: () => run(this) });
    this.button.setAttribute("aria-label", `Run ${label}`);
    this.code = element("textarea", { value: source, spellcheck: false, autocapitalize: "off", autocomplete: "off" });
    this.code.setAttribute("aria-label", `Code of ${label}`);
    this.outputs = element("div", { className: "outputs" });
    this.outputs.setAttribute("aria-live", "polite");
    this.section = element(
      "section",
      { className: "cell" },
      element("div", { className: "bar" }, this.button, this.number),
      this.code,
      this.outputs,
    );
    this.code.addEventListener("input", () => this.fit());
    this.code.addEventListener("keydown", (event) => this.onKey(event, run));
    this.fit();
  }

  /** Make the field as high as its code. */
  fit() {
    this.code.rows = Math.max(this.code.value.split("\n").length, 2);
  }

  onKey(event, run) {
    if (event.key !== "Enter") return;
    if (event.shiftKey || event.ctrlKey || event.metaKey) {
      event.preventDefault();
      run(this);
    } else {
      this.breakLine(event);
    }
  }

  /** Begin a line as far to the right as the one before it, and further behind a colon. */
  breakLine(event) {
    const before = this.code.value.slice(0, this.code.selectionStart);
    const line = before.slice(before.lastIndexOf("\n") + 1);
    const indent = line.match(/^ */)[0] + (line.trimEnd().endsWith(":") ? "    " : "");
    if (!indent) return;
    event.preventDefault();
    this.code.setRangeText(`\n${indent}`, this.code.selectionStart, this.code.selectionEnd, "end");
    this.fit();
  }

  /** The cell will run when those before it have. */
  wait() {
    this.number.textContent = "[*]";
  }

  /** The cell runs. Its old outputs go. */
  begin() {
    this.outputs.replaceChildren();
    this.section.classList.add("runs");
  }

  /** Show an output of a *kind*: stdout, stderr, value, html, error, or note for a cell that was not run. */
  show(kind, text) {
    const last = this.outputs.lastElementChild;
    if (kind === "html") {
      this.outputs.append(element("div", { className: "html", innerHTML: text }));
    } else if (last?.className === kind) {
      last.textContent += text;
    } else {
      this.outputs.append(element("pre", { className: kind, textContent: text }));
    }
  }

  /** The cell has run, as number *number*; if there is none, it has not run, or not to its end. */
  end(number) {
    this.number.textContent = number === undefined ? "[ ]" : `[${number}]`;
    this.section.classList.remove("runs");
  }
}
