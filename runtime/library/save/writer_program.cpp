#include "runtime/library/save/writer_program.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "compiler/support/error.h"
#include "compiler/support/own_file.h"

namespace ucp {
namespace {

constexpr const char* kProgram = "bin/ucprun";

}  // namespace

llvm::Expected<std::string> WriterProgram(const std::string& chosen) {
  const char* of_environment = std::getenv("UCP_WRITER");
  std::string program = chosen.empty() && of_environment != nullptr ? of_environment : chosen;
  if (program.empty()) {
    // PREFIX/lib, or PREFIX/lib/x86_64-linux-gnu.
    const std::filesystem::path own = OwnFile().parent_path();
    for (const std::filesystem::path& prefix : {own.parent_path(), own.parent_path().parent_path()}) {
      program = prefix / kProgram;
      if (::access(program.c_str(), X_OK) == 0) return program;
    }
    return Fail(ErrorCode::kIo,
                "there is no `{}` beside `{}`, which writes what a job saves; name it by SaveSettings::program or "
                "UCP_WRITER",
                kProgram, own.parent_path().string());
  }
  if (::access(program.c_str(), X_OK) == 0) return program;
  return Fail(ErrorCode::kIo, "`{}`, which writes what a job saves, cannot be run here", program);
}

}  // namespace ucp
