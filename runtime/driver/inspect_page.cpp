#include "runtime/driver/inspect_page.h"

#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/page/page.h"
#include "compiler/page/rank_bytes.h"
#include "runtime/driver/inspect_report.h"

namespace ucp {
namespace {

constexpr std::size_t kLabel = 10;  // Columns, of each line of a header.

struct Term {
  std::string label;
  std::string text;
};

// A line without a label belongs to the one before.
std::vector<Term> TermsOf(const std::vector<std::string>& lines) {
  std::vector<Term> terms;
  for (const std::string& line : lines) {
    const std::string label = line.substr(0, line.find(' '));
    const std::string text = line.substr(std::min(kLabel, line.size()));
    if (label.empty() && !terms.empty()) {
      terms.back().text += ": " + text;
    } else {
      terms.push_back({label, text});
    }
  }
  return terms;
}

const char* NoteOn(const Inventory& inventory) {
  if (inventory.boxes() != nullptr) {
    return "The folder holds boxes of tensors and does not say which rank saved which: `box=1` is the second one of "
           "each "
           "tensor.";
  }
  if (inventory.is_whole()) return "The folder holds whole tensors, for any ranks.";
  return "A column is a rank. Ranks that differ in data parallelism alone are one column where ZeRO partitions "
         "nothing; "
         "elsewhere `part=1` is data-parallel rank 1. A copy counts at every rank that holds it.";
}

void WriteHeader(const Inspection& inspection, llvm::json::OStream& json) {
  const std::vector<Term> terms = TermsOf(InspectHeader(inspection));
  json.attribute("title", Utf8(inspection.path));
  const auto text_of = [&](std::string_view label) {
    auto term = std::ranges::find(terms, label, &Term::label);
    return term == terms.end() ? std::string() : Utf8(term->text);
  };
  json.attribute("identity", text_of("read"));
  json.attribute("totals", text_of("tensors"));
  json.attribute("note", NoteOn(inspection.source.checkpoint.inventory));
  json.attributeArray("lines", [&] {
    for (const Term& term : terms) {
      json.array([&] {
        json.value(Utf8(term.label));
        json.value(Utf8(term.text));
      });
    }
  });
}

}  // namespace

std::string InspectionAsPage(const Inspection& inspection) {
  RankRows rows(BytesOfRanks(inspection.source.checkpoint.inventory.storage, CountedStates::kAll));
  Numbering texts;
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::json::OStream json(out);
  json.object([&] {
    WriteHeader(inspection, json);
    json.attributeArray("tensors", [&] {
      for (const InspectedTensor& row : inspection.tensors) {
        json.array([&] {
          json.value(Utf8(row.name));
          for (const std::string& one : {row.kind_name, ShapeText(row), StatesText(row)}) {
            json.value(texts.NumberOf(one));
          }
          json.value(row.bytes);
          json.value(rows.NumberOf(row.name));
        });
      }
    });
    json.attributeArray("texts", [&] {
      for (const std::string& one : texts.InOrder()) json.value(Utf8(one));
    });
    rows.Write(json);
  });
  return MakePage(PageKind::kInspect, std::move(text));
}

}  // namespace ucp
