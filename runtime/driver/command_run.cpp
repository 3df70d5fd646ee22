#include <fmt/format.h>

#include <map>
#include <memory>

#include "compiler/driver/source_phase.h"
#include "compiler/driver/terminal.h"
#include "compiler/plan/codec.h"
#include "compiler/plan/verifier.h"
#include "compiler/support/error.h"
#include "runtime/driver/commands.h"
#include "runtime/driver/conversion.h"

namespace ucp {
namespace {

struct RunOptions {
  std::string plan;
  std::string source;
  ConversionOptions conversion;
};

// A plan file comes from outside, so it is verified here again.
llvm::Expected<Plan> LoadPlan(FileSystem& files, const std::string& path) {
  constexpr std::uint64_t kLargestPlan = std::uint64_t{1} << 31;
  UCP_ASSIGN_OR_RETURN(std::string bytes, ReadWholeFile(files, path, kLargestPlan));
  auto plan = DecodePlan(bytes);
  if (!plan) return AddContext(plan.takeError(), fmt::format("`{}`", path));
  if (llvm::Error error = VerifyPlan(*plan)) return AddContext(std::move(error), fmt::format("`{}`", path));
  return plan;
}

// The source must be what the plan was made from: the same files, sizes and headers.
llvm::Error CheckIdentity(const Plan& plan, const Inventory& inventory) {
  std::map<std::string, const StoredFile*> found;
  for (const StoredFile& file : inventory.storage.files) found[file.path] = &file;
  for (const StoredFile& file : plan.source.files) {
    auto same = found.find(file.path);
    if (same == found.end()) {
      return Fail(ErrorCode::kBadData, "the plan reads `{}`, which `{}` does not have", file.path, inventory.root);
    }
    if (same->second->bytes != file.bytes) {
      return Fail(ErrorCode::kBadData, "`{}` has {} bytes, and had {} when the plan was made; make the plan again",
                  file.path, same->second->bytes, file.bytes);
    }
    if (same->second->header_hash != file.header_hash) {
      return Fail(ErrorCode::kBadData,
                  "the header of `{}` is not the one that the plan was made from; make the plan again", file.path);
    }
  }
  return llvm::Error::success();
}

llvm::Error RunPlan(const RunOptions& options) {
  FileSystem& files = RealFileSystem();
  UCP_ASSIGN_OR_RETURN(Plan plan, LoadPlan(files, options.plan));
  UCP_ASSIGN_OR_RETURN(Checkpoint checkpoint, DescribeSource(files, options.source, plan.preference));
  UCP_RETURN_IF_ERROR(CheckIdentity(plan, checkpoint.inventory));
  UCP_ASSIGN_OR_RETURN(ExecutionReport report, Convert(files, plan, checkpoint.inventory.root, options.conversion));
  PrintReport(plan, report, options.conversion);
  return llvm::Error::success();
}

}  // namespace

void AddRunCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command =
      app.add_subcommand("run", "Execute a plan that `ucpc plan` wrote, on the checkpoint it was made from.");
  command->footer("  ucprun run run.plan out/ --from checkpoints/");
  command->add_option("PLAN", options->plan, "A file that `ucpc plan` wrote")->required();
  command->add_option("OUT", options->conversion.destination, "The folder to make; it must not exist")->required();
  command->add_option("--from", options->source, "The checkpoint; a plan holds no absolute paths")
      ->type_name("DIR")
      ->required();
  AddConversionOptions(*command, options->conversion);
  command->callback([options, &exit_code] {
    if (llvm::Error error = RunPlan(*options)) {
      exit_code = ShowError("ucprun", std::move(error), options->conversion.json);
    }
  });
}

}  // namespace ucp
