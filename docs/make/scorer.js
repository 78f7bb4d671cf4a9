// How the search orders what it finds, by kinds of pages: guides before the pages of modules, and these before what is
// generated or about the project. Sphinx puts this file into its search; `score` gets each result once.
const KINDS = [
  [/^docs\/howto\//, 12],
  [/^docs\/(index|glossary|installing|timeline|problems|coming_from|course|platforms)$/, 8],
  [/^docs\/notebooks\//, -4],
  [/^docs\/(design|accuracy|errors|semantics|performance)$/, -4],
  [/^docs\/built\//, -14],
  [/^(CHANGELOG|CONTRIBUTING|README)$/, -20],
  [/^docs\//, 6],
];

var Scorer = {
  score: ([page, title, anchor, description, score]) => score + KINDS.find(([kind]) => kind.test(page))[1],
  objNameMatch: 11, // a name as typed: a verb is found before a page that speaks of it
  objPartialMatch: 2,
  objPrio: { 0: 5, 1: 0, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
