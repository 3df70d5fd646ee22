// ucprun: the runtime. It executes plans, alone or made on the spot, and shows what is in a checkpoint.
#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <csignal>
#include <string>

#include "compiler/command_line/command_line.h"
#include "compiler/command_line/completion.h"
#include "compiler/command_line/help_command.h"
#include "compiler/files/zstd_stream.h"
#include "compiler/support/version.h"
#include "runtime/comm/launcher.h"
#include "runtime/coordinator/tls.h"
#include "runtime/driver/commands.h"
#include "runtime/gpu/open_device.h"

namespace {

std::string Version() {
  return fmt::format("ucprun {} ({}, {}, {}, {})", ucp::kVersion, ucp::HasZstd() ? "zstd" : "no zstd",
                     ucp::HasTls() ? "TLS" : "no TLS", ucp::MpiSupport(), ucp::CudaSupport());
}

}  // namespace

int main(int argc, char** argv) {
  // A closed pipe and a file-size limit are errors of the next write, not the end of a conversion.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  CLI::App app{
      "ucprun converts checkpoints: in one pass, in bounded memory, all or nothing.\n\n"
      "  ucprun inspect checkpoints/                      what is there\n"
      "  ucprun convert checkpoints/ out/ --to universal\n"
      "  ucprun convert checkpoints/ out/ --to universal --spec gpt.ucp\n"
      "  ucprun run run.plan out/ --from checkpoints/     a plan of `ucpc plan`\n"
      "  ucprun load checkpoints/ --to deepspeed:dp=8 --rank 3\n"
      "  ucprun verify out/ --same checkpoints/           the same, bit by bit?\n"
      "  ucprun diff out/ other/                          by how much not\n"
      "  ucprun trace out/ 'wte.weight[17,204]'           where one element lies\n\n"
      "A spec says how tensor parallelism cuts; without that, none is needed.\n\n"
      "Exit codes: 0 done, 1 wrong spec or usage, 2 the source or the system is at fault, 3 a comparison found "
      "a difference, 130 interrupted."};
  app.set_version_flag("-V,--version", Version());
  app.require_subcommand(1);
  int exit_code = 0;
  ucp::AddConvertCommand(app, exit_code);
  ucp::AddRunCommand(app, exit_code);
  ucp::AddLoadCommand(app, exit_code);
  ucp::AddInspectCommand(app, exit_code);
  ucp::AddVerifyCommand(app, exit_code);
  ucp::AddDiffCommand(app, exit_code);
  ucp::AddTraceCommand(app, exit_code);
  ucp::AddSynthCommand(app, exit_code);
  ucp::AddBenchCommand(app, exit_code);
  ucp::AddMemoryCommand(app, exit_code);
  ucp::AddClusterCommand(app, exit_code);
  ucp::AddCoordinateCommand(app, exit_code);
  ucp::AddSimulateCommand(app, exit_code);
  ucp::AddWriteSavesCommand(app, exit_code);
  ucp::AddCompletionCommand(app, "ucprun", exit_code);
  ucp::AddHelpCommand(app, "ucprun", exit_code);
  exit_code = ucp::RunCommandLine(app, "ucprun", argc, argv, exit_code, ucp::IsLaterRank());
  ucp::LeaveRanks();
  return exit_code;
}
