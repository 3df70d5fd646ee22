#include <memory>

#include "compiler/command_line/terminal.h"
#include "compiler/driver/commands.h"
#include "compiler/files/readable_file_system.h"
#include "compiler/plan/codec.h"
#include "compiler/plan/print.h"
#include "compiler/support/error.h"
#include "compiler/verifier/verifier.h"

namespace ucp {
namespace {

llvm::Error Dump(const std::string& path) {
  constexpr std::uint64_t kLargestPlan = std::uint64_t{1} << 31;
  UCP_ASSIGN_OR_RETURN(std::string bytes, ReadWholeFile(RealFiles(), path, kLargestPlan));
  auto file = DecodePlanWithInputs(bytes);
  if (!file) return AddContext(file.takeError(), "`" + path + "`");
  if (llvm::Error error = VerifyPlan(file->plan)) return AddContext(std::move(error), "`" + path + "`");
  auto print = [](const std::string& line) { PrintLine(line); };
  if (file->inputs) PrintInputs(*file->inputs, print);
  PrintPlan(file->plan, print);
  return llvm::Error::success();
}

}  // namespace

void AddDumpCommand(CLI::App& app, int& exit_code) {
  auto path = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "dump", "Verify a plan and print it: what was asked for, its tables, and then one line a step");
  command->footer("  ucpc dump run.plan | less");
  command->add_option("PLAN", *path, "A file that `ucpc plan` wrote")->required();
  command->callback([path, &exit_code] {
    if (llvm::Error error = Dump(*path)) exit_code = ShowError("ucpc", std::move(error));
  });
}

}  // namespace ucp
