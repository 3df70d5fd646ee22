#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <memory>

#include "compiler/catalogue/catalogue.h"
#include "compiler/command_line/command_line.h"
#include "compiler/command_line/terminal.h"
#include "compiler/command_line/value_checks.h"
#include "compiler/driver/commands.h"
#include "compiler/layout/fact_value.h"
#include "compiler/open/opened_spec.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "compiler/trial/try_layouts.h"

namespace ucp {
namespace {

struct TestOptions {
  SourceTexts source;
  std::uint64_t seed = 1;
  double seconds = 2;
  bool allow_unreached = false;
};

std::string ValuesText(const Settings& values) {
  std::string text;
  for (const auto& [name, value] : values) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, TextOf(value));
  return text.empty() ? "no dims" : text;
}

constexpr std::size_t kShownMisfits = 5;

void PrintReport(const TrialReport& report, const TestOptions& options) {
  if (report.tensors == 0) return;  // No model was found, and the error says why.
  PrintReportLine(fmt::format(
      "values       {}{}", ValuesText(report.values.front()),
      report.values.size() > 1 ? fmt::format(", and {}", Counted(report.values.size() - 1, "more choice")) : ""));
  if (report.families > 1) PrintReportLine(fmt::format("families     {} ways to set the facts", report.families));
  PrintReportLine(fmt::format("model        {}, {}", Counted(report.tensors, "tensor"),
                              Counted(static_cast<std::uint64_t>(report.elements), "element")));
  PrintReportLine(fmt::format("meshes       {} of {} small ones fit, and {} of {} random ones", report.meshes.size(),
                              report.meshes.size() + report.misfits.size(), report.random_meshes,
                              report.random_meshes + report.random_misfits));
  for (std::size_t i = 0; i < report.misfits.size() && i < kShownMisfits; ++i) {
    PrintReportLine(fmt::format("  not {}: {}", ToString(report.misfits[i].mesh), report.misfits[i].why));
  }
  if (report.misfits.size() > kShownMisfits) {
    PrintReportLine(fmt::format("  and {} more", report.misfits.size() - kShownMisfits));
  }
  PrintReportLine(fmt::format("conversions  {}, {} followed, seed {}", report.conversions,
                              Counted(static_cast<std::uint64_t>(report.copied), "element"), options.seed));
  for (const auto& [why, count] : report.refused) PrintReportLine(fmt::format("  {} not tried: {}", count, why));
}

llvm::Error FailureOf(const TrialReport& report, const std::string& path) {
  if (report.failure.empty()) return llvm::Error::success();
  return Fail(ErrorCode::kSpec, "{}: {}{}", path, report.failure,
              report.values.empty() ? "" : fmt::format(" (with {})", ValuesText(report.values.back())));
}

// The cuts of one layout.
llvm::Error TestLayout(const CheckedSpec& spec, const TrialOptions& trial, const TestOptions& options,
                       const std::string& path) {
  TrialReport report = TrySpec(spec, trial);
  PrintReport(report, options);
  UCP_RETURN_IF_ERROR(FailureOf(report, path));
  for (const std::string& item : report.unreached) PrintReportLine(fmt::format("unreached    {}", item));
  if (!report.unreached.empty() && !options.allow_unreached) {
    return Fail(
        ErrorCode::kSpec,
        "{}: of {}, no values that were tried make a tensor, so nothing is known of {}; --set values that do, or "
        "--allow-unreached",
        path, Counted(report.unreached.size(), "item"), report.unreached.size() == 1 ? "it" : "them");
  }
  return llvm::Error::success();
}

// Each layout by itself, and then from each to each other.
llvm::Error TestModel(const CheckedSpec& spec, TrialOptions trial, const TestOptions& options,
                      const std::string& path) {
  trial.seconds /= static_cast<double>(spec.layouts.size());
  for (std::size_t i = 0; i < spec.layouts.size(); ++i) {
    PrintReportLine(fmt::format("layout       {}", spec.layouts[i].name));
    UCP_RETURN_IF_ERROR(TestLayout(WithLayout(spec, i), trial, options, path));
  }
  if (spec.layouts.size() == 1) return llvm::Error::success();
  const TrialReport report = TryLayouts(spec, trial);
  PrintReportLine(fmt::format("between      {} layouts: {} conversions, {} followed", spec.layouts.size(),
                              report.conversions, Counted(static_cast<std::uint64_t>(report.copied), "element")));
  return FailureOf(report, path);
}

llvm::Error Test(const TestOptions& options) {
  UCP_ASSIGN_OR_RETURN(SourceRequest request, options.source.Request());
  UCP_ASSIGN_OR_RETURN(std::string path, FindSpec(options.source.spec));
  UCP_ASSIGN_OR_RETURN(OpenedSpec session, OpenSpec(path));
  ShowDiagnostics(*session);
  if (session->sink.has_errors()) return SpecErrors(*session);
  const CheckedSpec& spec = *session->checked;
  const TrialOptions trial{request.set, options.seed, options.seconds};
  UCP_RETURN_IF_ERROR(spec.layouts.empty() ? TestLayout(spec, trial, options, path)
                                           : TestModel(spec, trial, options, path));
  PrintReportLine("there and back is the identity, and two hops equal one");
  return llvm::Error::success();
}

}  // namespace

void AddTestCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<TestOptions>();
  CLI::App* command = app.add_subcommand("test",
                                         "Try a spec with small dims on every small mesh of its axes and then on "
                                         "random ones, and follow every element there and back. Needs no checkpoint.");
  command->footer(
      "  ucpc test gpt.ucp\n"
      "  ucpc test gpt.ucp --set layers=4 --set heads=6 --seed 7 --seconds 60");
  command->add_option("SPEC", options->source.spec, "A .ucp file, or a name of the catalogue")->required();
  command
      ->add_option("--set", options->source.set,
                   "Give a dim or a fact a value, which is chosen otherwise; may be repeated")
      ->type_name("NAME=VALUE");
  command->add_flag("--allow-unreached", options->allow_unreached,
                    "Pass although items of the spec, such as one under a condition that never held, were not tried");
  command->add_option("--seed", options->seed, "Another seed tries other meshes and values; 1 if not given")
      ->check(WholeNumber(0, std::numeric_limits<std::int64_t>::max()))
      ->type_name("N");
  command->add_option("--seconds", options->seconds, "How long to try random meshes; 2 if not given")
      ->check(SomeSeconds())
      ->type_name("SECONDS");
  command->callback([options, &exit_code] {
    if (llvm::Error error = Test(*options)) exit_code = ShowError("ucpc", std::move(error));
  });
}

}  // namespace ucp
