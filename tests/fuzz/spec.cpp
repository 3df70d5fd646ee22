// A spec is parsed and checked; a compiler that refuses has said why.
#include "compiler/check/check_spec.h"
#include "compiler/diagnostics/render.h"
#include "compiler/parse/parse.h"
#include "compiler/support/check.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto source = ucp::Source::FromText("fuzz.ucp", std::string(ucp::fuzz::Text(data, size)));
  if (!source) {
    llvm::consumeError(source.takeError());
    return 0;
  }
  ucp::DiagnosticSink sink;
  auto file = ucp::ParseSpec(*source, sink);
  UCP_CHECK(file.has_value() || sink.has_errors(), "refused without a reason");
  if (!file) return 0;
  auto spec = ucp::CheckSpec(*file, *source, sink);
  UCP_CHECK(spec.has_value() != sink.has_errors(), "refused without a reason, or accepted with errors");
  (void)ucp::RenderText(*source, sink);
  return 0;
}
