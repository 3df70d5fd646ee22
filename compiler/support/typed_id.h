// Ids that cannot be mixed up: an index into one table of one structure, with a type of its own and a printed form.
//
//   using FileId = TypedId<struct FileTag>;
#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace ucp {

template <typename Tag>
class TypedId {
 public:
  constexpr TypedId() = default;
  constexpr explicit TypedId(std::size_t value) : value_(static_cast<std::uint32_t>(value)) {}

  constexpr std::size_t index() const { return value_; }
  constexpr std::uint32_t value() const { return value_; }
  constexpr auto operator<=>(const TypedId&) const = default;

 private:
  std::uint32_t value_ = 0;
};

}  // namespace ucp

template <typename Tag>
struct std::hash<ucp::TypedId<Tag>> {
  std::size_t operator()(ucp::TypedId<Tag> id) const noexcept { return id.index(); }
};

template <typename Tag>
struct fmt::formatter<ucp::TypedId<Tag>> : fmt::formatter<std::uint32_t> {
  template <typename Context>
  auto format(ucp::TypedId<Tag> id, Context& context) const {
    return fmt::formatter<std::uint32_t>::format(id.value(), context);
  }
};
