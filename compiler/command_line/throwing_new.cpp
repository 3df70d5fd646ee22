// The allocator's own `operator new` (mimalloc is C) ends the process where it should throw. malloc() is also its own.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

void* Given(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return Given(std::malloc(bytes)); }
void* operator new[](std::size_t bytes) { return Given(std::malloc(bytes)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  void* memory = nullptr;
  const int error = ::posix_memalign(&memory, std::max(sizeof(void*), static_cast<std::size_t>(alignment)), bytes);
  return Given(error == 0 ? memory : nullptr);
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) { return operator new(bytes, alignment); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
