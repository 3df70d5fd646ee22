#include "compiler/formats/known_training.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "compiler/formats/objects/call_text.h"
#include "compiler/formats/objects/known_part.h"
#include "compiler/support/units.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

using pytorch::Entry;
using pytorch::ValuePtr;

class Filter {
 public:
  Filter(const objects::KnownObjects& known, std::vector<LeftOut>& left_out) : part_(known), left_out_(left_out) {}

  void Reduce(std::vector<Entry>& entries, const ValueOrigin& origin) {
    entries = part_.OfEntries(entries, origin.path);
    Note(origin.file);
  }

  // Becomes null if nothing of it can stay.
  void Reduce(ValuePtr& value, const ValueOrigin& origin) {
    if (value) value = part_.Of(value, origin.path);
    Note(origin.file);
  }

 private:
  void Note(const std::string& file) {
    for (objects::UnknownEntry& entry : part_.TakeUnknown()) {
      left_out_.push_back({file, std::move(entry.path), std::move(entry.object), std::move(entry.calls)});
    }
  }

  objects::KnownPart part_;
  std::vector<LeftOut>& left_out_;
};

// An optimizer's state is carried whole or not at all.
void CheckLooseStates(const objects::KnownObjects& known, std::vector<LooseState>& states) {
  for (LooseState& state : states) {
    const pytorch::Value* unknown = known.FindUnknown(*state.value);
    if (unknown == nullptr) continue;
    state.why_not_carried = fmt::format("loading it would run `{}`; {} keeps it", objects::CallText(*unknown),
                                        OptionName(UserOption::kKeepOpaque, objects::ObjectName(*unknown)));
  }
}

ValueOrigin Below(const ValueOrigin& origin, std::string_view key) {
  return {origin.file, origin.path.empty() ? std::string(key) : fmt::format("{}.{}", origin.path, key)};
}

// Of one entry, in one file or in several alike.
struct Note {
  std::string path;
  std::vector<std::string> calls;
  std::vector<std::string> objects;
  bool has_other_form = false;  // Of a class that is known.
  auto operator<=>(const Note&) const = default;
};

std::string TextOf(const Note& note, const std::vector<std::string>& files) {
  std::string text = note.path.empty() ? "" : fmt::format("`{}` in ", note.path);
  text += fmt::format("`{}`", files.front());
  if (files.size() > 1) text += fmt::format(" and {}", Counted(files.size() - 1, "other file"));
  text += fmt::format(" is left out: loading it would run `{}`", fmt::join(note.calls, "`, `"));
  if (note.has_other_form) text += ", with contents that its framework does not write";
  std::vector<std::string> kept_by;
  for (const std::string& object : note.objects) kept_by.push_back(OptionName(UserOption::kKeepOpaque, object));
  return text + fmt::format("; `{}` keeps it", fmt::join(kept_by, " "));
}

}  // namespace

TrainingState KnownTraining(TrainingState training, std::span<const std::string> keep, std::vector<LeftOut>& left_out) {
  const objects::KnownObjects known(keep);
  Filter filter(known, left_out);
  for (std::size_t g = 0; g < training.groups.size(); ++g) {
    OptimizerGroup& group = training.groups[g];
    const ValueOrigin origin = Below(training.groups_origin, std::to_string(g));
    filter.Reduce(group.hyper_parameters, origin);
    filter.Reduce(group.step, Below(origin, "step"));
  }
  filter.Reduce(training.optimizer, training.optimizer_origin);
  filter.Reduce(training.engine, training.engine_origin);
  for (RankState& rank : training.ranks) {
    filter.Reduce(rank.client, rank.client_origin);
    filter.Reduce(rank.module_extras, rank.module_origin);
  }
  CheckLooseStates(known, training.loose_states);
  return training;
}

std::vector<std::string> NotesOn(std::span<const LeftOut> left_out) {
  constexpr std::size_t kMostNotes = 20;
  std::vector<Note> notes;  // In the order of the files.
  std::map<Note, std::vector<std::string>> files;
  for (std::size_t i = 0; i < left_out.size();) {
    Note note{left_out[i].path, {}, {}, false};
    const std::string& file = left_out[i].file;
    for (; i < left_out.size() && left_out[i].path == note.path && left_out[i].file == file; ++i) {
      note.calls.push_back(left_out[i].calls);
      note.objects.push_back(left_out[i].object);
      note.has_other_form |= objects::IsKnownName(left_out[i].object);
    }
    std::vector<std::string>& with_it = files[note];
    if (with_it.empty()) notes.push_back(note);
    with_it.push_back(file);
  }
  std::vector<std::string> sentences;
  for (std::size_t i = 0; i < notes.size() && i < kMostNotes; ++i) {
    sentences.push_back(TextOf(notes[i], files.at(notes[i])));
  }
  if (notes.size() > kMostNotes) {
    sentences.push_back(fmt::format("{} left out for such a reason: the report as JSON lists all",
                                    Counted(notes.size() - kMostNotes, "more note")));
  }
  return sentences;
}

}  // namespace ucp
