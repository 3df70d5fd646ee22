" The .ucp language. A test compares the words with grammar/UcpLexer.g4.
if exists("b:current_syntax") | finish | endif

syntax case match
syntax iskeyword @,48-57,_

syntax keyword ucpDeclaration ucp dim fact mesh layout model strategy include
syntax keyword ucpItem optional buffer block tie drop interleave
syntax keyword ucpClause of from else when at unused mean scale offset has
syntax keyword ucpOperatorWord not and or in
syntax keyword ucpBoolean true false
syntax keyword ucpFunction pad ceil length count
syntax match ucpNumber "\<\d\+\>"
" Behind a dot every word is a name of the checkpoint: args.block
syntax match ucpPath "\.\s*\h\w*"
" The axis that cuts, and its rule: ffn@tp(spread 64), hidden@(tp, dp)
syntax match ucpCut "@\s*\%(\h\w*\|([^()]*)\)" nextgroup=ucpRule
syntax match ucpRule "(\s*\%(chunk\|spread\|widths\|list\|replicate\)\>[^()]*)" contained
syntax match ucpComment "//.*$" contains=ucpTodo,@Spell
syntax keyword ucpTodo TODO contained
syntax region ucpString start=+"+ end=+"+ oneline contains=ucpAlternatives,ucpHole
syntax match ucpAlternatives "{[^{}|"]*|[^{}"]*}" contained
syntax region ucpHole matchgroup=ucpBraces start="{\ze[^{}|"]*}" end="}" contained oneline contains=ucpCut,ucpNumber
syntax sync minlines=1 maxlines=1

highlight default link ucpDeclaration Keyword
highlight default link ucpItem Statement
highlight default link ucpClause Statement
highlight default link ucpOperatorWord Operator
highlight default link ucpBoolean Boolean
highlight default link ucpFunction Function
highlight default link ucpNumber Number
highlight default link ucpCut Special
highlight default link ucpRule Type
highlight default link ucpComment Comment
highlight default link ucpTodo Todo
highlight default link ucpString String
highlight default link ucpAlternatives PreProc
highlight default link ucpHole Identifier
highlight default link ucpBraces PreProc

let b:current_syntax = "ucp"
