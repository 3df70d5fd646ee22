// `ucprun simulate`: what a cluster would do in a trace of failures, by policy.
#include <fmt/format.h>
#include <llvm/Support/raw_ostream.h>

#include <memory>

#include "compiler/command_line/output_place.h"
#include "compiler/command_line/terminal.h"
#include "compiler/command_line/value_checks.h"
#include "compiler/command_line/write_file.h"
#include "compiler/files/readable_file_system.h"
#include "compiler/support/json_text.h"
#include "runtime/comm/launcher.h"
#include "runtime/driver/commands.h"
#include "runtime/healing/cluster_file.h"
#include "runtime/healing/simulation.h"
#include "runtime/transitions/plan_transitions.h"

namespace ucp {
namespace {

struct SimulateOptions {
  std::string tasks;
  std::string trace;
  std::int64_t nodes = 0;  // 0: those of the file.
  std::vector<std::string> policies = {"ucp", "own", "restart", "wait"};
  std::string report;
  bool force = false;
  bool json = false;
};

struct NamedSimulation {
  std::string policy;
  Simulation simulation;
};

llvm::Expected<HealingPolicy> PolicyOf(const std::string& name) {
  std::string known;
  for (const auto& [other, policy] : kHealingPolicies) {
    if (other == name) return policy;
    known += fmt::format("{}`{}`", known.empty() ? "" : ", ", other);
  }
  return Fail(ErrorCode::kUsage, "--policy: `{}` is not a policy; there are {}", name, known);
}

llvm::Error CheckNodes(const SimulateOptions& options, const Cluster& cluster, const FailureTrace& trace) {
  for (const NodeFailure& failure : trace.failures) {
    if (failure.node < cluster.nodes) continue;
    return Fail(ErrorCode::kUsage, "`{}`: node {} fails, and the cluster has {} nodes, from 0 on", options.trace,
                failure.node, cluster.nodes);
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<NamedSimulation>> SimulateAll(const SimulateOptions& options) {
  UCP_ASSIGN_OR_RETURN(Cluster cluster, ReadPlannedCluster(RealFiles(), options.tasks));
  UCP_ASSIGN_OR_RETURN(const FailureTrace trace, ReadTraceFile(RealFiles(), options.trace));
  if (options.nodes > 0) {
    cluster.nodes = options.nodes;
    if (llvm::Error error = CheckCluster(cluster)) {
      return AddContext(std::move(error), fmt::format("`{}`, with --nodes {}", options.tasks, options.nodes));
    }
  }
  UCP_RETURN_IF_ERROR(CheckNodes(options, cluster, trace));
  std::vector<NamedSimulation> simulations;
  for (const std::string& name : options.policies) {
    UCP_ASSIGN_OR_RETURN(const HealingPolicy policy, PolicyOf(name));
    simulations.push_back({name, Simulate(cluster, trace, policy)});
  }
  return simulations;
}

std::int64_t CountOf(const Simulation& simulation, Answer answer) {
  return simulation.answers[static_cast<std::size_t>(answer)];
}

llvm::json::Object SimulationJson(const NamedSimulation& of) {
  llvm::json::Array moments;
  for (const SimulatedMoment& moment : of.simulation.moments) {
    moments.push_back(llvm::json::Array{moment.at, moment.nodes, moment.flops});
  }
  return llvm::json::Object{{"policy", of.policy},
                            {"flop", of.simulation.flop},
                            {"ideal_flop", of.simulation.ideal},
                            {"stopped_seconds", of.simulation.down},
                            {"ignored", of.simulation.ignored},
                            {"reattempts", CountOf(of.simulation, Answer::kReattempt)},
                            {"restarts", CountOf(of.simulation, Answer::kRestart)},
                            {"begun_again", CountOf(of.simulation, Answer::kNothing)},
                            {"isolated", CountOf(of.simulation, Answer::kIsolate)},
                            {"parked", CountOf(of.simulation, Answer::kPark)},
                            {"moments", std::move(moments)}};
}

llvm::json::Value SimulationsJson(const std::vector<NamedSimulation>& simulations) {
  llvm::json::Array policies;
  for (const NamedSimulation& simulation : simulations) policies.push_back(SimulationJson(simulation));
  return llvm::json::Object{{"version", kJsonVersion}, {"policies", std::move(policies)}};
}

void PrintSimulations(const std::vector<NamedSimulation>& simulations) {
  PrintLine("policy    weighted FLOP  of no failures  reattempts  restarts  isolated  parked");
  for (const auto& [policy, simulation] : simulations) {
    PrintLine(fmt::format("{:<8}  {:>13.5g}  {:>12.2f} %  {:>10}  {:>8}  {:>8}  {:>6}", policy, simulation.flop,
                          100 * simulation.flop / simulation.ideal, CountOf(simulation, Answer::kReattempt),
                          CountOf(simulation, Answer::kRestart), CountOf(simulation, Answer::kIsolate),
                          CountOf(simulation, Answer::kPark)));
  }
}

llvm::Error RunSimulate(const SimulateOptions& options) {
  std::optional<OutputPlace> place;
  if (!options.report.empty()) {
    UCP_ASSIGN_OR_RETURN(place, PlaceOutput({.path = options.report,
                                             .what = "the report",
                                             .begins = R"({"policies":[)",
                                             .force = options.force,
                                             .inputs = {options.tasks, options.trace}}));
  }
  UCP_ASSIGN_OR_RETURN(const std::vector<NamedSimulation> simulations, SimulateAll(options));
  llvm::json::Value json = SimulationsJson(simulations);
  if (place) {
    std::string text;
    llvm::raw_string_ostream(text) << json << '\n';
    UCP_RETURN_IF_ERROR(WriteOutput(*place, text));
  }
  if (options.json) {
    PrintJson(std::move(json));
  } else {
    PrintSimulations(simulations);
  }
  return llvm::Error::success();
}

void AddSimulateOptions(CLI::App& command, SimulateOptions& options) {
  command.add_option("--tasks", options.tasks, "The tasks of the cluster, a JSON file")->required()->type_name("FILE");
  command.add_option("--trace", options.trace, "The failures over time, a JSON file")->required()->type_name("FILE");
  command.add_option("--nodes", options.nodes, "How many nodes there are; default: as the file of tasks says")
      ->check(WholeNumber(1, kMostNodes))
      ->type_name("N");
  command
      .add_option("--policy", options.policies,
                  "Policies to compare: ucp, own, restart, wait; separated by commas, default: all")
      ->delimiter(',')
      ->type_name("NAMES");
  command.add_option("--report", options.report, "Writes all of it as JSON")->type_name("FILE");
  AddForceOption(command, "--report", options.force);
  command.add_flag("--json", options.json, "The same on standard output");
}

}  // namespace

void AddSimulateCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* command =
      app.add_subcommand("simulate", "How much the tasks of a cluster would get done in a trace of failures.");
  command->footer("  ucprun simulate --tasks cluster.json --trace trace.json --policy ucp,wait");
  AddSimulateOptions(*command, *options);
  command->callback([options, &exit_code] {
    if (LeavesWorkToFirstRank()) return;
    if (llvm::Error error = RunSimulate(*options)) exit_code = ShowError("ucprun", std::move(error), options->json);
  });
}

}  // namespace ucp
