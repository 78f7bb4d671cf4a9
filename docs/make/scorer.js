// How the search orders what it finds, by kinds of pages: guides before the pages of modules, and these before what is
// generated or about the project. Among these, pages that have the words most often come first. A page whose name is the
// word, and a name of the API as it is written, come before all; a section that is called so comes before other texts.
// Sphinx puts this file into its search; `score` gets each result once.
const KINDS = [
  [/^docs\/howto\//, 12],
  [/^docs\/(index|glossary|installing|timeline|problems|coming_from|course|platforms)$/, 8],
  [/^docs\/notebooks\//, -4],
  [/^docs\/(design|accuracy|errors|semantics|performance)(\/|$)/, -4],
  [/^docs\/built\//, -14],
  [/^(CHANGELOG|CONTRIBUTING|README)$/, -20],
  [/^docs\//, 6],
];

const ASKED = new URLSearchParams(location.search).get("q")?.trim() ?? "";
const STEMS = ASKED.toLowerCase().split(/[^a-z]+/).filter((word) => word.length > 2 && ![...stopwords].includes(word)).map((word) => word.replace(/s$/, ""));

function isNamed(page, title) {
  const isWritten = !page.startsWith("docs/built/");
  return (
    (isWritten && page.split("/").pop() === ASKED.toLowerCase()) ||
    (/[A-Z_]/.test(ASKED) && title.split(".").pop() === ASKED)
  );
}

function isHeading(title) {
  return title.split(" > ").pop().toLowerCase() === ASKED.toLowerCase();
}

/** How much a page is about the words: the more often it has them, the more. COUNTS has the pages with their words. */
function weight(page) {
  const words = Object.entries(COUNTS[page] ?? {});
  const counted = STEMS.map((stem) => words.reduce((sum, [word, times]) => sum + (word.startsWith(stem) ? times : 0), 0));
  return counted.length ? (3 * counted.reduce((sum, times) => sum + Math.log2(1 + times), 0)) / counted.length : 0;
}

var Scorer = {
  score: ([page, title, anchor, description, score]) =>
    score +
    KINDS.find(([kind]) => kind.test(page))[1] +
    (isNamed(page, title) ? 40 : isHeading(title) ? 15 : 0) +
    weight(page),
  objNameMatch: 11,
  objPartialMatch: 2,
  objPrio: { 0: 5, 1: 0, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
