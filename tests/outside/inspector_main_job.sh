#!/usr/bin/env bash
# The main job, played by MCP Inspector's connection CLI (`mcpdo`): one named connection, one command a step.
#
#   tests/outside/inspector_main_job.sh ERA GM WORKSPACE
#
# ERA is legacy, auto or modern; GM the program; WORKSPACE a git repository that holds a.txt with the line "two".
# `mcpdo` must be on PATH (npm packages node@22 and @modelcontextprotocol/inspector@2.12.0).
set -euo pipefail
era=$1 gm=$2 workspace=$3
eval "$(mcpdo private)"
trap 'mcpdo daemon stop >/dev/null 2>&1 || true' EXIT

export MCP_INSPECTOR_SECRET_STORE=memory
ask() { mcpdo --format json --connection gm "$@"; }
call() { ask tools/call "$1" --tool-args-json "$2"; }
text() { node -e 'const r = JSON.parse(require("fs").readFileSync(0)); console.log((r.result ?? r).content[0].text)'; }
body() { call run_code "$(node -e 'console.log(JSON.stringify({code: process.argv[1]}))' "$1")" | text; }

mcpdo --connection gm connect --era "$era" -- "$gm" serve --workspace "$workspace" >/dev/null
ask tools/list >/dev/null
ask resources/read skill://gm/SKILL.md >/dev/null
call next_context '{"task": "replace two by 2", "run": "new"}' | text | head -1
row=$(body 'r = await gm.prd_add(title="Two is 2", doneWhen="grep -q 2 a.txt"); r["id"]')
call next_context "{\"focus\": \"$row\"}" | text | grep '^focus'
body 'e = await gm.edit_file(path="a.txt", old="two", new="2"); print(e["diff"])' >/dev/null
witness=$(body 'c = await gm.run_shell(command="grep -q 2 a.txt"); assert c["exit"] == 0; c["seq"]')
commit=$(body 'c = await gm.git_commit(message="Two is 2", paths=["a.txt"]); c["sha"]')
worker=$(body 'import os; e = (await gm.query_log(kind="run-start", limit=1, full=True))["events"][0]; e["pid"]')
kill -9 "$worker"
body "await gm.prd_resolve(id=\"$row\", event=$witness, commit=\"$commit\")" >/dev/null
body 'await gm.git_commit(message="Plan", paths=["work"])' >/dev/null
call finish '{"summary": "done", "force": true}' | text | head -1
ask disconnect >/dev/null
"$gm" log verify --workspace "$workspace" | head -1
