#include "compiler/formats/deepspeed/common/embedded_layout.h"

#include <fmt/format.h>

#include "compiler/formats/deepspeed/common/affine_map_value.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

using pytorch::Value;
using pytorch::ValuePtr;

constexpr std::int64_t kMapVersion = 1;

class Reader {
 public:
  Reader(const Value& info, const std::string& where) : info_(info), where_(where) {}

  llvm::Expected<EmbeddedLayout> Run() {
    EmbeddedLayout layout;
    layout.where = where_;
    if (ValuePtr version = Find("universal_checkpoint_version")) {
      layout.version = pytorch::AsDouble(*version).value_or(0);
    }
    if (ValuePtr vocabulary = Find("original_vocab_size")) {
      layout.original_vocabulary = pytorch::AsInteger(*vocabulary).value_or(0);
    }
    UCP_ASSIGN_OR_RETURN(layout.replicated, Patterns("tp_replicated_parameter_patterns"));
    UCP_ASSIGN_OR_RETURN(layout.averaged, Patterns("parameter_to_average_patterns"));
    UCP_ASSIGN_OR_RETURN(layout.row_parallel, Patterns("parameter_with_row_parallelism_patterns"));
    UCP_ASSIGN_OR_RETURN(layout.vocabulary, Patterns("vocabulary_parameter_patterns"));
    UCP_ASSIGN_OR_RETURN(layout.two_parts, Patterns("parameter_with_2_sub_params_cat_dim_0"));
    UCP_RETURN_IF_ERROR(ReadSubParameters(layout));
    UCP_RETURN_IF_ERROR(ReadMaps(layout));
    ReadUnsupported(layout);
    return layout;
  }

 private:
  ValuePtr Find(std::string_view key) const {
    ValuePtr value = pytorch::Find(info_, key);
    return value != nullptr && value->is_none() ? nullptr : value;
  }

  llvm::Error Refuse(std::string_view entry, std::string_view why) const {
    return Fail(ErrorCode::kBadData, "`universal_checkpoint_info[{}]` in {} {}", entry, where_, why);
  }

  llvm::Expected<std::vector<std::string>> Texts(const Value& value, std::string_view entry) const {
    std::vector<std::string> texts;
    const auto* items = pytorch::Items(value);
    if (items == nullptr) return Refuse(entry, "is not a list of patterns");
    for (const ValuePtr& item : *items) {
      auto text = pytorch::AsText(*item);
      if (!text) return Refuse(entry, "holds something that is not a text");
      texts.emplace_back(*text);
    }
    return texts;
  }

  llvm::Expected<std::vector<std::string>> Patterns(std::string_view entry) const {
    ValuePtr list = Find(entry);
    if (list == nullptr) return std::vector<std::string>{};
    return Texts(*list, entry);
  }

  llvm::Error ReadSubParameters(EmbeddedLayout& layout) const {
    constexpr std::string_view kEntry = "parameter_with_sub_params";
    ValuePtr list = Find(kEntry);
    if (list == nullptr) return llvm::Error::success();
    const auto* items = pytorch::Items(*list);
    if (items == nullptr) return Refuse(kEntry, "is not a list");
    for (const ValuePtr& item : *items) UCP_RETURN_IF_ERROR(ReadSubParameters(*item, kEntry, layout));
    return llvm::Error::success();
  }

  // {'patterns': [...], 'shape': (3, -1) or [(64, 32, 32), -1], 'partition_dim': 0}, as a dict or an object.
  llvm::Error ReadSubParameters(const Value& value, std::string_view entry, EmbeddedLayout& layout) const {
    SubParameters parameters;
    ValuePtr patterns = pytorch::Find(value, "patterns");
    ValuePtr shape = pytorch::Find(value, "shape");
    ValuePtr dimension = pytorch::Find(value, "partition_dim");
    if (patterns == nullptr || shape == nullptr || dimension == nullptr) {
      return Refuse(entry, "lacks `patterns`, `shape` or `partition_dim`");
    }
    UCP_ASSIGN_OR_RETURN(std::vector<std::string> texts, Texts(*patterns, entry));
    parameters.dimension = pytorch::AsInteger(*dimension).value_or(-1);
    const auto* sizes = pytorch::Items(*shape);
    if (sizes == nullptr || parameters.dimension < 0 ||
        parameters.dimension >= static_cast<std::int64_t>(sizes->size())) {
      return Refuse(entry, "has a `partition_dim` outside of its `shape`");
    }
    const Value& along = *(*sizes)[static_cast<std::size_t>(parameters.dimension)];
    if (auto count = pytorch::AsInteger(along)) {
      parameters.equal_parts = *count;
    } else if (auto parts = pytorch::AsIntegers(along)) {
      parameters.sizes = std::move(*parts);
    } else {
      return Refuse(entry, "has parts that are not whole numbers");
    }
    for (std::string& text : texts) {
      parameters.pattern = std::move(text);
      UCP_RETURN_IF_ERROR(ReadWidths(parameters));
      layout.sub_parameters.push_back(parameters);
    }
    return llvm::Error::success();
  }

  // {pattern: [[widths of the first part, one for each rank], …]}
  llvm::Error ReadWidths(SubParameters& parameters) const {
    constexpr std::string_view kEntry = "sub_param_shard_widths";
    ValuePtr all = Find(kEntry);
    parameters.widths.clear();
    if (all == nullptr) return llvm::Error::success();
    ValuePtr widths = pytorch::Find(*all, parameters.pattern);
    if (widths == nullptr) return llvm::Error::success();
    const auto* parts = pytorch::Items(*widths);
    if (parts == nullptr) return Refuse(kEntry, "does not have a list for each pattern");
    for (const ValuePtr& part : *parts) {
      auto one = pytorch::AsIntegers(*part);
      if (!one) return Refuse(kEntry, "has widths that are not whole numbers");
      parameters.widths.push_back(std::move(*one));
    }
    return llvm::Error::success();
  }

  llvm::Error ReadMaps(EmbeddedLayout& layout) const {
    constexpr std::string_view kEntry = "affine_map";
    ValuePtr entry = Find(kEntry);
    if (entry == nullptr) return llvm::Error::success();
    ValuePtr version = pytorch::Find(*entry, "version");
    std::int64_t number = version == nullptr ? kMapVersion : pytorch::AsInteger(*version).value_or(0);
    if (number != kMapVersion) {
      return Fail(ErrorCode::kUnsupported,
                  "`universal_checkpoint_info[affine_map]` in {} is of version {}, and this program reads version {}",
                  where_, number, kMapVersion);
    }
    ValuePtr params = pytorch::Find(*entry, "params");
    const auto* maps = params == nullptr ? nullptr : pytorch::Entries(*params);
    if (maps == nullptr) return Refuse(kEntry, "has no `params`");
    for (const pytorch::Entry& map : *maps) {
      auto pattern = pytorch::AsText(*map.key);
      if (!pattern) return Refuse(kEntry, "has a pattern that is not a text");
      auto read = ReadAffineMap(*map.value);
      if (!read) return Refuse(kEntry, fmt::format("has a map of another form for `{}`", *pattern));
      layout.maps.emplace_back(*pattern, std::move(*read));
    }
    return llvm::Error::success();
  }

  void ReadUnsupported(EmbeddedLayout& layout) const {
    ValuePtr entry = Find("autotp_unsupported_parameter_patterns");
    const auto* entries = entry == nullptr ? nullptr : pytorch::Entries(*entry);
    if (entries == nullptr) return;
    for (const pytorch::Entry& one : *entries) {
      auto pattern = pytorch::AsText(*one.key);
      auto reason = pytorch::AsText(*one.value);
      if (pattern && reason) layout.unsupported.emplace_back(*pattern, *reason);
    }
  }

  const Value& info_;
  const std::string& where_;
};

}  // namespace

llvm::Expected<EmbeddedLayout> ReadEmbeddedLayout(const pytorch::Value& info, const std::string& where) {
  return Reader(info, where).Run();
}

}  // namespace ucp
