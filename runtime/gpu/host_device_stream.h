// Streams and events of the stand-in for GPUs: each stream is a thread, and late on purpose.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

// Has passed when all that was recorded last is done.
struct UcpEvent {
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t recorded = 0;
    std::uint64_t passed = 0;
    bool has_failed = false;
  };
  std::shared_ptr<State> state = std::make_shared<State>();
};

struct UcpStream {
  UcpStream(int of_device, std::chrono::microseconds most_delay)
      : device(of_device), delay(most_delay), thread([this] { Run(); }) {}
  ~UcpStream() {
    {
      std::lock_guard lock(mutex);
      ends = true;
    }
    changed.notify_one();
    thread.join();
  }

  void Give(std::function<void()> task) {
    {
      std::lock_guard lock(mutex);
      tasks.push_back(std::move(task));
    }
    changed.notify_one();
  }

  void Run() {
    std::minstd_rand random(20261122);
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return ends || !tasks.empty(); });
      if (tasks.empty()) return;
      const std::function<void()> task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      if (delay.count() > 0) {
        std::this_thread::sleep_for(delay * (random() % 1000) / 1000);
      }
      task();
      lock.lock();
    }
  }

  const int device;
  const std::chrono::microseconds delay;  // Before anything that it does; half of it on average.
  bool has_failed = false;                // Of its own thread.
  std::mutex mutex;                       // Protects what follows.
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool ends = false;
  std::thread thread;
};
