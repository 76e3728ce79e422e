// RankThreads: one thread for each simulated rank, kept for the life of the process.
//
// Rank threads are never ended: PyTorch's thread-local destructors crash when a thread that has
// used torch.distributed ends before the process does. Each thread keeps one Python thread state,
// so that threading.local values (the rank's world) survive from case to case. Thread rule: run()
// is called by one thread at a time, without the GIL.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

namespace shardfuzz {

class RankThreads {
 public:
  // Runs `job(rank)` on the threads 0..count-1 and returns when all are done. The threads hold no
  // GIL; PythonThread (below) takes it.
  void run(int count, const std::function<void(int)>& job);

 private:
  struct Seat {
    bool has_job = false;
  };
  void serve(int rank);

  std::mutex mutex_;
  std::condition_variable wake_, finished_;
  std::vector<Seat> seats_;
  const std::function<void(int)>* job_ = nullptr;
  int running_ = 0;
};

// Holds the GIL with the calling thread's own, lasting Python thread state.
class PythonThread {
 public:
  PythonThread();
  ~PythonThread();
  PythonThread(const PythonThread&) = delete;
  PythonThread& operator=(const PythonThread&) = delete;
};

}  // namespace shardfuzz
