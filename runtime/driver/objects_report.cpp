#include "runtime/driver/objects_report.h"

#include <fmt/format.h>

#include <map>

#include "compiler/support/printable.h"
#include "compiler/support/units.h"

namespace ucp {
namespace {

struct OfAllFiles {
  objects::FoundObject object;
  std::uint64_t files = 0;
  std::string first;  // File that has it; of one that is not known, the first where it is not.
};

// Those that are not known come first.
std::map<std::pair<bool, std::string>, OfAllFiles> ByName(const ObjectScan& scan) {
  std::map<std::pair<bool, std::string>, OfAllFiles> all;
  for (const ScannedFile& file : scan.pickles) {
    for (const auto& [name, found] : file.objects.by_name) {
      OfAllFiles& one = all[{found.is_known, name}];
      if (one.files++ == 0)
        one = {found, 1, file.path};
      else
        one.object.called += found.called, one.object.named += found.named;
    }
  }
  return all;
}

std::string TimesText(const objects::FoundObject& object) {
  if (object.called == 0) return fmt::format("named {} times", WithThousands(object.named));
  return fmt::format("called {} times", WithThousands(object.called));
}

}  // namespace

std::vector<std::string> ObjectLines(const ObjectScan& scan) {
  std::vector<std::string> lines;
  std::uint64_t unknown = 0;
  for (const auto& [key, one] : ByName(scan)) {
    std::string line = fmt::format("{:<8} {}  {}, in {}", key.first ? "known" : "UNKNOWN", Printable(key.second),
                                   TimesText(one.object), Counted(one.files, "file"));
    if (!key.first) {
      ++unknown;
      line += fmt::format("; `{}` would run `{}`", Printable(one.first), one.object.calls);
    }
    lines.push_back(std::move(line));
  }
  for (const ScannedFile& file : scan.pickles) {
    const std::string name = Printable(file.path);
    if (!file.objects.odd_instruction.empty()) {
      lines.push_back(fmt::format("{:<8} `{}` has the instruction {}, which torch.save never writes", "ODD", name,
                                  Printable(file.objects.odd_instruction)));
    }
    if (!file.objects.unread.empty()) {
      lines.push_back(fmt::format("{:<8} `{}`: {}", "UNREAD", name, Printable(file.objects.unread)));
    }
  }
  lines.push_back(fmt::format("{} of {} hold pickles; {}", WithThousands(scan.pickles.size()),
                              Counted(scan.files, "file"),
                              IsSafe(scan)   ? "loading them runs nothing but what frameworks write into checkpoints"
                              : unknown == 0 ? "not all of them could be read"
                                             : fmt::format("loading them with torch.load(weights_only=False) would run "
                                                           "{} that no framework writes into checkpoints",
                                                           Counted(unknown, "name"))));
  return lines;
}

llvm::json::Object ObjectsJson(const ObjectScan& scan) {
  llvm::json::Array objects;
  llvm::json::Array unread;
  for (const ScannedFile& file : scan.pickles) {
    for (const auto& [name, found] : file.objects.by_name) {
      objects.push_back(llvm::json::Object{{"file", Printable(file.path)},
                                           {"object", Printable(name)},
                                           {"called", found.called},
                                           {"named", found.named},
                                           {"known", found.is_known},
                                           {"calls", found.calls}});
    }
    const std::string& odd = file.objects.odd_instruction;
    if (odd.empty() && file.objects.unread.empty()) continue;
    unread.push_back(llvm::json::Object{
        {"file", Printable(file.path)}, {"instruction", Printable(odd)}, {"reason", Printable(file.objects.unread)}});
  }
  return llvm::json::Object{{"path", Printable(scan.path)},   {"files", scan.files},
                            {"pickles", scan.pickles.size()}, {"safe", IsSafe(scan)},
                            {"objects", std::move(objects)},  {"unread", std::move(unread)}};
}

}  // namespace ucp
