#include "runtime/driver/load_report.h"

#include <fmt/format.h>
#include <llvm/Support/JSON.h>

#include <algorithm>

#include "compiler/command_line/terminal.h"
#include "compiler/plan/plan_report.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "runtime/resources/io_of_run.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {
namespace {

constexpr std::uint64_t kNanoseconds = 1'000'000'000;

std::uint64_t InNanoseconds(double seconds) {
  return static_cast<std::uint64_t>(seconds * static_cast<double>(kNanoseconds));
}

double Seconds(std::uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / static_cast<double>(kNanoseconds);
}

// Bytes a second.
double Rate(const LoadReport& report) {
  return report.seconds > 0 ? static_cast<double>(report.bytes_placed) / report.seconds : 0;
}

std::string FilesText(const RankLoad& load) {
  return fmt::format("rank {}: {} of {}", load.rank, HumanBytes(load.report.bytes_placed), Counted(load.files, "file"));
}

std::string RateText(const RankLoad& load) {
  std::string text = fmt::format("{:.2f} GB/s", Rate(load.report) / 1e9);
  if (load.ceiling_bytes_per_second <= 0) return text;
  return text + fmt::format(", {:.0f} % of the {:.2f} GB/s of {}",
                            100 * Rate(load.report) / load.ceiling_bytes_per_second,
                            load.ceiling_bytes_per_second / 1e9,
                            load.device.empty() ? "reading alone" : "copying from pinned memory alone");
}

std::string DeviceText(const RankLoad& load) {
  std::string text =
      fmt::format("rank {}: {} came to {} in {}, with {}", load.rank, HumanBytes(load.report.bytes_to_devices),
                  load.device, Counted(load.report.transfers, "transfer"), Counted(load.report.launches, "kernel"));
  if (load.report.bytes_from_peers == 0) return text;
  return text + fmt::format("; {} from other GPUs", HumanBytes(load.report.bytes_from_peers));
}

std::string ComparedText(const RankLoad& load) {
  const LoadedComparison& compared = *load.comparison;
  if (compared.differ == 0) {
    return fmt::format("rank {}: {} compared with the source: equal", load.rank, Counted(compared.elements, "element"));
  }
  return fmt::format("rank {}: {} of {} differ from the source; first: {}", load.rank, compared.differ,
                     Counted(compared.elements, "element"), compared.first);
}

llvm::json::Object RankJson(const LoadPlan& plan, const RankLoad& load) {
  const LoadReport& report = load.report;
  llvm::json::Array files;
  for (FileId file : plan.FilesOf(load.rank)) files.push_back(plan.plan.target.files[file.index()].path);
  llvm::json::Object json{{"rank", load.rank},
                          {"files", std::move(files)},
                          {"bytes_placed", report.bytes_placed},
                          {"bytes_read", report.bytes_read},
                          {"bytes_received", report.bytes_received},
                          {"seconds", report.seconds},
                          {"bytes_per_second", Rate(report)},
                          {"threads", report.threads},
                          {"buffer_bytes", report.buffer_bytes},
                          {"nothing_converted", report.is_as_stored}};
  if (!load.device.empty()) {
    json["device"] = load.device;
    json["bytes_to_device"] = report.bytes_to_devices;
    json["transfers"] = report.transfers;
    json["launches"] = report.launches;
    json["bytes_from_gpus"] = report.bytes_from_peers;
    if (!report.why_by_hosts.empty()) json["why_by_hosts"] = report.why_by_hosts;
  }
  if (load.ceiling_bytes_per_second > 0) {
    json["ceiling_bytes_per_second"] = load.ceiling_bytes_per_second;
    json["of_ceiling"] = Rate(report) / load.ceiling_bytes_per_second;
  }
  if (load.comparison) {
    json["elements_compared"] = load.comparison->elements;
    json["elements_that_differ"] = load.comparison->differ;
    if (load.comparison->differ > 0) json["first_difference"] = load.comparison->first;
  }
  return json;
}

}  // namespace

std::string Encode(const RankLoad& load) {
  wire::ByteWriter writer;
  const LoadReport& report = load.report;
  for (std::uint64_t number :
       {static_cast<std::uint64_t>(load.rank), load.files, report.bytes_placed, report.bytes_read,
        report.bytes_received, report.bytes_read_by_all, std::uint64_t{report.is_as_stored},
        InNanoseconds(report.seconds), std::uint64_t{report.threads}, report.buffer_bytes, report.bytes_to_devices,
        report.transfers, report.launches, report.bytes_from_peers,
        static_cast<std::uint64_t>(load.ceiling_bytes_per_second), std::uint64_t{load.comparison.has_value()}}) {
    writer.Add(number);
  }
  writer.Add(std::string_view(load.device));
  writer.Add(std::string_view(report.why_by_hosts));
  if (load.comparison) {
    writer.Add(load.comparison->elements);
    writer.Add(load.comparison->differ);
    writer.Add(std::string_view(load.comparison->first));
  }
  return writer.bytes();
}

llvm::Expected<RankLoad> DecodeRankLoad(const std::string& bytes) {
  wire::ByteReader reader(bytes);
  RankLoad load;
  LoadReport& report = load.report;
  load.rank = static_cast<int>(reader.Number());
  for (std::uint64_t* number :
       {&load.files, &report.bytes_placed, &report.bytes_read, &report.bytes_received, &report.bytes_read_by_all}) {
    *number = reader.Number();
  }
  report.is_as_stored = reader.Number() != 0;
  report.seconds = Seconds(reader.Number());
  report.threads = static_cast<unsigned>(reader.Number());
  report.buffer_bytes = reader.Number();
  report.bytes_to_devices = reader.Number();
  report.transfers = reader.Number();
  report.launches = reader.Number();
  report.bytes_from_peers = reader.Number();
  load.ceiling_bytes_per_second = static_cast<double>(reader.Number());
  const bool is_compared = reader.Number() != 0;
  load.device = reader.Text();
  report.why_by_hosts = reader.Text();
  if (is_compared) {
    load.comparison.emplace();
    load.comparison->elements = reader.Number();
    load.comparison->differ = reader.Number();
    load.comparison->first = reader.Text();
  }
  if (reader.is_at_end()) return load;
  return Fail(ErrorCode::kIo, "a rank sent a report of {} bytes that cannot be read; all ranks must run the same ucp",
              bytes.size());
}

void PrintLoad(const LoadPlan& plan, const std::string& target, const std::vector<RankLoad>& ranks,
               const IoChoice& reading) {
  for (const std::string& line : IdentityLines(plan.source)) PrintReportLine(line);
  for (const std::string& remark : plan.plan.remarks) ShowMessage("note: " + remark);
  for (const RankLoad& load : ranks) {
    PrintReportLine(fmt::format("{} in {:.2f} s ({}); read {}, received {}", FilesText(load), load.report.seconds,
                                RateText(load), HumanBytes(load.report.bytes_read),
                                HumanBytes(load.report.bytes_received)));
    if (!load.device.empty()) PrintReportLine(DeviceText(load));
    if (load.comparison) PrintReportLine(ComparedText(load));
  }
  const auto by_hosts =
      std::ranges::find_if(ranks, [](const RankLoad& one) { return !one.report.why_by_hosts.empty(); });
  if (by_hosts != ranks.end()) {
    PrintReportLine("bytes for several GPUs went by way of the hosts: " + by_hosts->report.why_by_hosts);
  }
  if (reading.directly) PrintReportLine("large files were read past the page cache: " + reading.reason);
  const bool is_as_stored =
      std::all_of(ranks.begin(), ranks.end(), [](const RankLoad& load) { return load.report.is_as_stored; });
  if (is_as_stored)
    PrintReportLine(fmt::format("nothing had to be converted: the elements lie in the source as in `{}`", target));
}

void PrintLoadJson(const LoadPlan& plan, const std::string& target, const std::vector<RankLoad>& ranks,
                   const IoChoice& reading) {
  llvm::json::Array loads;
  for (const RankLoad& load : ranks) loads.push_back(RankJson(plan, load));
  llvm::json::Array remarks;
  for (const std::string& remark : plan.plan.remarks) remarks.push_back(remark);
  PrintJson(llvm::json::Object{{"checkpoint", IdentityJson(plan.source)},
                               {"target", target},
                               {"ranks_of_target", plan.readers.ranks},
                               {"bytes_read_by_all", ranks.front().report.bytes_read_by_all},
                               {"io", llvm::json::Object{{"reading", IoChoiceJson(reading)}}},
                               {"ranks", std::move(loads)},
                               {"remarks", std::move(remarks)},
                               {"left_out", LeftOutJson(plan.plan.left_out)}});
}

}  // namespace ucp
