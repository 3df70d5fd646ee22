autocmd BufRead,BufNewFile *.ucp setfiletype ucp
