// How the search orders what it finds, by kinds of pages: guides before the pages of modules, and these before what is
// generated or about the project. A page whose name is the word, and a name of the API as it is written, come first.
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

function isNamed(page, title) {
  return page.split("/").pop() === ASKED.toLowerCase() || (/[A-Z_]/.test(ASKED) && title.split(".").pop() === ASKED);
}

var Scorer = {
  score: ([page, title, anchor, description, score]) =>
    score + KINDS.find(([kind]) => kind.test(page))[1] + (isNamed(page, title) ? 40 : 0),
  objNameMatch: 11,
  objPartialMatch: 2,
  objPrio: { 0: 5, 1: 0, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
