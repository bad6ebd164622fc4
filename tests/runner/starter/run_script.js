// Runs the script of an actions/github-script step against a GitHub in memory.
// Standard input: {script, context, state}; standard output: {state, said, failed, result}.
const { script, context, state } = JSON.parse(require('fs').readFileSync(0, 'utf8'))
const said = []
let failed = ''
const summary = { addRaw: (text) => ({ write: async () => said.push(text) }) }
const core = { summary, info: (text) => said.push(text), setFailed: (text) => { failed = text } }
const rest = {
  pulls: { list: (query) => state.pulls.filter((each) => `${each.owner}:${each.ref}` === query.head) },
  actions: { listWorkflowRunArtifacts: () => state.artifacts, listJobsForWorkflowRun: () => state.jobs },
  issues: {
    listComments: (query) => state.comments.filter((each) => each.issue === query.issue_number),
    listForRepo: (query) => state.issues.filter((each) => each.state === query.state),
    createComment: ({ issue_number, body }) => state.comments.push(
      { id: state.comments.length + 1, issue: issue_number, body, user: { login: 'github-actions[bot]' } }),
    updateComment: ({ comment_id, body }) => {
      state.comments.find((each) => each.id === comment_id).body = body
    },
    create: ({ title, body }) => state.issues.push(
      { number: state.issues.length + 1, title, body, state: 'open' }),
    update: ({ issue_number, ...changes }) => Object.assign(
      state.issues.find((each) => each.number === issue_number), changes),
  },
}
const github = { rest, paginate: async (method, query) => method(query) }
const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor
const run = new AsyncFunction('github', 'context', 'core', 'require', script)
run(github, context, core, require).then((result) => {
  process.stdout.write(JSON.stringify({ state, said, failed, result }))
})
