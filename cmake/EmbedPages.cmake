# cmake -DFOLDER=… -DOUTPUT=… -P EmbedPages.cmake: a C++ source with all pages of a folder, for compiler/diagnostics/pages.h.
file(GLOB pages ${FOLDER}/*.md)
list(SORT pages)
set(source "#include \"compiler/diagnostics/pages.h\"\n\nnamespace ucp {\nnamespace {\n\n")
string(APPEND source "struct Page {\n  std::string_view kind;\n  std::string_view text;\n};\n\nconstexpr Page kPages[] = {\n")
foreach(page IN LISTS pages)
  get_filename_component(kind ${page} NAME_WE)
  file(READ ${page} text)
  string(APPEND source "{\"${kind}\", R\"ucp_page(${text})ucp_page\"},\n")
endforeach()
string(APPEND source "};\n\n}  // namespace\n\nstd::string_view DiagnosticPage(std::string_view kind) {\n"
                     "  for (const Page& page : kPages) {\n    if (page.kind == kind) return page.text;\n  }\n  return {};\n}\n\n"
                     "}  // namespace ucp\n")
file(WRITE ${OUTPUT} "${source}")
