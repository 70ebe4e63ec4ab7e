// What TypeScript's own checker says of every call site of a repository: one JSON line a site.
// Usage: node resolve.js <typescript module> <repository>   (the list of files comes on stdin, one path a line)
'use strict'
const fs = require('fs')
const path = require('path')
const ts = require(path.resolve(process.argv[2]))
const root = fs.realpathSync(process.argv[3])
const files = fs.readFileSync(0, 'utf8').split('\n').filter(Boolean).map(f => path.join(root, f))

const options = {
  allowJs: true, checkJs: false, noEmit: true, skipLibCheck: true, jsx: ts.JsxEmit.Preserve,
  target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext, allowImportingTsExtensions: true,
  moduleResolution: ts.ModuleResolutionKind.Bundler, esModuleInterop: true, resolveJsonModule: true, types: [],
  maxNodeModuleJsDepth: 0,
}
const config = ['tsconfig.json', 'tsconfig.base.json', 'jsconfig.json'].map(n => path.join(root, n)).find(p => fs.existsSync(p))
if (config) {
  const parsed = ts.parseJsonConfigFileContent(ts.readConfigFile(config, ts.sys.readFile).config, ts.sys, root)
  for (const key of ['paths', 'baseUrl', 'pathsBasePath', 'experimentalDecorators', 'strict']) {
    if (parsed.options[key] !== undefined) options[key] = parsed.options[key]
  }
}
const program = ts.createProgram(files, options)
const checker = program.getTypeChecker()
const wanted = new Set(files)

// A destructured parameter is a parameter, whatever the kind of the node that names it.
function kindOf(declaration) {
  let node = declaration
  while (ts.isBindingElement(node)) node = node.parent.parent
  return ts.SyntaxKind[(ts.isParameter(node) ? node : declaration).kind]
}

function place(declaration) {
  const name = ts.getNameOfDeclaration(declaration) || declaration
  const source = declaration.getSourceFile()
  const at = source.getLineAndCharacterOfPosition(name.getStart(source))
  const whole = source.getLineAndCharacterOfPosition(declaration.getStart(source))
  return { path: path.relative(root, source.fileName), line: at.line + 1, start: whole.line + 1,
    kind: kindOf(declaration) }
}

function visit(node, source) {
  let callee = null
  if (ts.isCallExpression(node) || ts.isNewExpression(node)) callee = node.expression
  else if (ts.isTaggedTemplateExpression(node)) callee = node.tag
  while (callee && (ts.isParenthesizedExpression(callee) || ts.isNonNullExpression(callee) || ts.isAsExpression(callee))) {
    callee = callee.expression
  }
  const plain = callee && ts.isIdentifier(callee)
  const member = callee && ts.isPropertyAccessExpression(callee)
  if (plain || member) {
    const name = plain ? callee : callee.name
    let symbol = checker.getSymbolAtLocation(name)
    while (symbol && symbol.flags & ts.SymbolFlags.Alias) {
      const next = checker.getAliasedSymbol(symbol)
      if (next === symbol) break
      symbol = next
    }
    const at = source.getLineAndCharacterOfPosition(name.getStart(source))
    const all = (symbol && symbol.declarations) || []
    // the function that the call's signature belongs to, where the symbol is only a property that holds it
    let signature
    try {
      signature = checker.getResolvedSignature(node)
    } catch (error) {
      // the checker itself fails on some JavaScript; its symbol still stands
    }
    const called = signature && signature.declaration && wanted.has(signature.declaration.getSourceFile().fileName)
      ? [signature.declaration] : []
    const declarations = all.filter(d => wanted.has(d.getSourceFile().fileName))
    console.log(JSON.stringify({ path: path.relative(root, source.fileName), line: at.line + 1, column: at.character + 1,
      name: name.text, form: ts.isNewExpression(node) ? 'new' : plain ? 'f()' : 'x.f()',
      elsewhere: all.length > 0 && declarations.length === 0, declarations: declarations.map(place), called: called.map(place) }))
  }
  ts.forEachChild(node, child => visit(child, source))
}
for (const source of program.getSourceFiles()) if (wanted.has(source.fileName)) visit(source, source)
