// `ucprun memory plan`: what checkpoints in the memory of other machines would take and give.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>

#include "compiler/command_line/terminal.h"
#include "compiler/command_line/value_checks.h"
#include "compiler/files/readable_file_system.h"
#include "compiler/support/error.h"
#include "compiler/support/json_text.h"
#include "compiler/support/parse_rate.h"
#include "compiler/support/units.h"
#include "runtime/comm/launcher.h"
#include "runtime/driver/commands.h"
#include "runtime/driver/memory/memory_commands.h"
#include "runtime/memory_tier/placement.h"
#include "runtime/memory_tier/tier_times.h"

namespace ucp {
namespace {

constexpr std::int64_t kMostMachines = 100'000;
constexpr std::int64_t kMostCopies = 16;
constexpr std::uint64_t kMostDomainBytes = std::uint64_t{16} << 20;

struct MemoryPlanOptions {
  std::int64_t machines = 0;
  std::int64_t copies = 2;
  std::string bytes;
  std::string network;
  std::string storage;
  std::string domains;
  double iteration = 0;  // 0: not given.
  double idle = 0;
  bool json = false;
};

struct MemoryPlan {
  Placement placement;
  std::map<std::string, std::vector<std::int64_t>> machines_of_domain;
  TierRequest request;
  TierTimes times;
};

llvm::Expected<double> RateOf(const std::string& option, const std::string& text) {
  if (const std::optional<double> rate = ParseRate(text)) return *rate;
  return Fail(ErrorCode::kUsage, "{} takes a bandwidth such as 400Gb/s or 50GB/s, not `{}`", option, text);
}

// One a line.
llvm::Expected<std::vector<std::string>> ReadDomains(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(RealFiles(), path, kMostDomainBytes));
  std::vector<std::string> domains;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) {
      return Fail(ErrorCode::kUsage, "`{}`: line {} is empty, and each line is the failure domain of a machine", path,
                  domains.size() + 1);
    }
    domains.emplace_back(line);
  }
  return domains;
}

llvm::Expected<MemoryPlan> MakePlan(const MemoryPlanOptions& options) {
  MemoryPlan plan;
  std::vector<std::string> domains;
  if (!options.domains.empty()) {
    UCP_ASSIGN_OR_RETURN(domains, ReadDomains(options.domains));
    if (options.machines != std::ssize(domains)) {
      return Fail(ErrorCode::kUsage, "`{}` has {}, and --machines is {}: each machine has one line", options.domains,
                  Counted(domains.size(), "line"), options.machines);
    }
  }
  UCP_ASSIGN_OR_RETURN(plan.placement, PlaceMachines(options.machines, options.copies, domains));
  for (std::size_t machine = 0; machine < domains.size(); ++machine) {
    plan.machines_of_domain[domains[machine]].push_back(static_cast<std::int64_t>(machine));
  }
  const std::optional<std::uint64_t> bytes = ParseByteCount(options.bytes);
  if (!bytes) return Fail(ErrorCode::kUsage, "--bytes takes a size such as 75GB, not `{}`", options.bytes);
  plan.request.bytes = static_cast<double>(*bytes);
  plan.request.machines = options.machines;
  plan.request.copies = options.copies;
  UCP_ASSIGN_OR_RETURN(plan.request.network, RateOf("--network", options.network));
  if (!options.storage.empty()) {
    UCP_ASSIGN_OR_RETURN(plan.request.storage, RateOf("--storage", options.storage));
  }
  if (options.iteration > 0) plan.request.iteration = options.iteration;
  if (options.idle > 0) plan.request.idle = options.idle;
  if (options.idle > 0 && !(options.idle <= options.iteration)) {
    return Fail(ErrorCode::kUsage, "--idle is {} s of an iteration of {} s: it is a part of --iteration", options.idle,
                options.iteration);
  }
  plan.times = TimesOf(plan.request);
  return plan;
}

std::vector<std::string> FatalDomains(const MemoryPlan& plan) {
  std::vector<std::string> fatal;
  for (const auto& [domain, machines] : plan.machines_of_domain) {
    if (!IsRecoverable(plan.placement, machines)) fatal.push_back(domain);
  }
  return fatal;
}

std::int64_t MostLost(const MemoryPlan& plan) {
  return std::min<std::int64_t>(std::ssize(plan.placement.order), std::max<std::int64_t>(4, 2 * plan.request.copies));
}

std::string SecondsText(double seconds) {
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  return seconds < 7200 ? fmt::format("{:.3g} min", seconds / 60) : fmt::format("{:.3g} h", seconds / 3600);
}

std::string PlacementText(const Placement& placement) {
  std::string text;
  if (placement.copies == 1) return "each machine keeps its own state alone";
  if (placement.groups > 0) {
    text = fmt::format("{} of {} machines that keep one another's state",
                       Counted(static_cast<std::uint64_t>(placement.groups), "group"), placement.copies);
  }
  if (placement.ring == 0) return text;
  return fmt::format("{}{}a ring of {} machines, each of which sends its state to the {} before it", text,
                     text.empty() ? "" : ", and ", placement.ring, placement.copies - 1);
}

void PrintRow(std::string_view label, const std::string& text) { PrintLine(fmt::format("{:<11} {}", label, text)); }

void PrintChances(const MemoryPlan& plan) {
  PrintRow("recovery", "from memory, by machines that are lost at the same time");
  for (std::int64_t lost = 1; lost <= MostLost(plan); ++lost) {
    PrintRow("", fmt::format("{:>3}  {:.2f} %", lost, 100 * ChanceOfRecovery(plan.placement, lost)));
  }
  if (plan.machines_of_domain.empty()) return;
  const std::vector<std::string> fatal = FatalDomains(plan);
  PrintRow("domains", fmt::format("{} of {} can be lost alone{}", plan.machines_of_domain.size() - fatal.size(),
                                  plan.machines_of_domain.size(),
                                  fatal.empty() ? "" : fmt::format("; not {}", fmt::join(fatal, ", "))));
}

void PrintLostTime(std::string_view label, const std::optional<LostTime>& time) {
  if (!time) return;
  PrintRow("", fmt::format("{:>8}  {}", SecondsText(time->seconds()), label));
}

void Print(const MemoryPlan& plan) {
  const TierRequest& request = plan.request;
  const double kept = 2 * static_cast<double>(request.copies) * request.bytes;
  PrintRow("placement", PlacementText(plan.placement));
  PrintRow("memory", fmt::format("{} on each machine: two versions of its own state and of {}",
                                 HumanBytes(static_cast<std::uint64_t>(kept)),
                                 Counted(static_cast<std::uint64_t>(request.copies - 1), "other one")));
  PrintRow("network",
           fmt::format("{} to send and to receive for a version: {}",
                       HumanBytes(static_cast<std::uint64_t>(static_cast<double>(request.copies - 1) * request.bytes)),
                       SecondsText(plan.times.sending)));
  if (plan.times.interval) {
    PrintRow(
        "interval",
        fmt::format("every {}, in {}",
                    *plan.times.interval == 1 ? "iteration" : fmt::format("{} iterations", *plan.times.interval),
                    request.idle ? fmt::format("{:g} of the idle {} of each", kUsedIdleTime, SecondsText(*request.idle))
                                 : "all of its time; --idle says how long the network is idle"));
  }
  PrintChances(plan);
  if (!plan.times.interval) return;
  PrintRow("lost time", "by a failure, on average");
  PrintLostTime("from the machines' own memory", plan.times.own_memory);
  PrintLostTime("from the memory of another machine, which was replaced", plan.times.others_memory);
  PrintLostTime("from storage, saved as often as it takes a checkpoint", plan.times.storage_often);
  PrintLostTime("from storage, saved every 3 hours", plan.times.storage_seldom);
}

llvm::json::Value LostTimeJson(const std::optional<LostTime>& time) {
  if (!time) return nullptr;
  return llvm::json::Object{{"making_seconds", time->making},
                            {"period_seconds", time->period},
                            {"fetching_seconds", time->fetching},
                            {"seconds", time->seconds()}};
}

llvm::json::Object Json(const MemoryPlan& plan) {
  const Placement& placement = plan.placement;
  llvm::json::Array groups;
  for (std::int64_t place = 0; place < std::ssize(placement.order); ++place) {
    llvm::json::Array keepers;
    for (std::int64_t keeper : KeepersOf(placement, place)) {
      keepers.push_back(placement.order[static_cast<std::size_t>(keeper)]);
    }
    groups.push_back(std::move(keepers));
  }
  llvm::json::Array chances;
  for (std::int64_t lost = 1; lost <= MostLost(plan); ++lost) chances.push_back(ChanceOfRecovery(placement, lost));
  llvm::json::Object json{{"keepers", std::move(groups)},
                          {"groups", placement.groups},
                          {"ring", placement.ring},
                          {"chances", std::move(chances)},
                          {"memory_bytes", 2 * static_cast<double>(plan.request.copies) * plan.request.bytes},
                          {"sending_seconds", plan.times.sending},
                          {"own_memory", LostTimeJson(plan.times.own_memory)},
                          {"others_memory", LostTimeJson(plan.times.others_memory)},
                          {"storage_often", LostTimeJson(plan.times.storage_often)},
                          {"storage_seldom", LostTimeJson(plan.times.storage_seldom)}};
  json["interval"] = plan.times.interval ? llvm::json::Value(*plan.times.interval) : llvm::json::Value(nullptr);
  json["domains_that_must_not_be_lost"] = llvm::json::Array(FatalDomains(plan));
  return json;
}

llvm::Error RunMemoryPlan(const MemoryPlanOptions& options) {
  UCP_ASSIGN_OR_RETURN(const MemoryPlan plan, MakePlan(options));
  if (options.json) {
    PrintJson(Json(plan));
  } else {
    Print(plan);
  }
  return llvm::Error::success();
}

void AddOptions(CLI::App& command, MemoryPlanOptions& options) {
  command.add_option("--machines", options.machines, "How many machines the job has")
      ->required()
      ->check(WholeNumber(1, kMostMachines))
      ->type_name("N");
  command.add_option("--copies", options.copies, "Of each machine's state, its own included; default 2")
      ->check(WholeNumber(1, kMostCopies))
      ->type_name("N");
  command.add_option("--bytes", options.bytes, "Of each machine's state")->required()->type_name("SIZE");
  command.add_option("--network", options.network, "The bandwidth of each machine, such as 400Gb/s or 50GB/s")
      ->required()
      ->type_name("RATE");
  command.add_option("--iteration", options.iteration, "How long an iteration of the training takes")
      ->check(SomeSeconds())
      ->type_name("SECONDS");
  command.add_option("--idle", options.idle, "How long the network is idle in each iteration; default: all of it")
      ->check(SomeSeconds())
      ->type_name("SECONDS");
  command
      .add_option("--storage", options.storage,
                  "The bandwidth of the storage, for all machines together, to compare with")
      ->type_name("RATE");
  command
      .add_option("--domains", options.domains,
                  "The failure domain of each machine, such as its rack, one a line: copies go to other domains")
      ->type_name("FILE");
  command.add_flag("--json", options.json, "The numbers as JSON");
}

}  // namespace

void AddMemoryCommand(CLI::App& app, int& exit_code) {
  CLI::App* memory = app.add_subcommand("memory", "Checkpoints in the memory of the machines of a job.");
  memory->footer(
      "  ucprun memory list                        what jobs have kept on this machine\n"
      "  ucprun inspect memory:llama               the newest one, for every command\n"
      "  ucprun memory plan --machines 16 --bytes 75GB --network 400Gb/s");
  memory->require_subcommand(1);
  AddMemoryListCommand(*memory, exit_code);
  AddMemoryVerifyCommand(*memory, exit_code);
  AddMemoryDropCommand(*memory, exit_code);
  auto options = std::make_shared<MemoryPlanOptions>();
  CLI::App* command = memory->add_subcommand(
      "plan", "How often a job could keep its state in the memory of its machines, and what failures would lose then.");
  command->footer(
      "  ucprun memory plan --machines 16 --bytes 75GB --network 400Gb/s \\\n"
      "      --iteration 62 --storage 20Gb/s");
  AddOptions(*command, *options);
  command->callback([options, &exit_code] {
    if (LeavesWorkToFirstRank()) return;
    if (llvm::Error error = RunMemoryPlan(*options)) exit_code = ShowError("ucprun", std::move(error), options->json);
  });
}

}  // namespace ucp
