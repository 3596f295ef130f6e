// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alioth-net/alioth/cnid/nodeipam/queue"
	"github.com/alioth-net/alioth/cnid/nodeipam/queue/drain"
	"github.com/alioth-net/alioth/test/waits"
)

// never is longer than any test, so that only the kernel's reports start a pass.
const never = time.Hour

// running is a drain that runs until the test ends.
type running struct {
	dir     string
	applied chan queue.Release
	stop    func()
}

// start runs a drain with a release that sends to applied what fail does not refuse.
func start(t *testing.T, dir string, cfg drain.Config, fail func(queue.Release) error) *running {
	t.Helper()
	r := &running{dir: dir, applied: make(chan queue.Release, 1000)}
	cfg.Dir, cfg.Log = dir, slog.New(slog.NewTextHandler(t.Output(), nil))
	cfg.Release = func(_ context.Context, q queue.Release) error {
		if fail != nil {
			if err := fail(q); err != nil {
				return err
			}
		}
		r.applied <- q
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { drain.New(cfg).Run(ctx) })
	r.stop = func() { cancel(); ended.Wait() }
	t.Cleanup(r.stop)
	return r
}

func (r *running) next(t *testing.T) queue.Release {
	t.Helper()
	return waits.Receive(t, time.Minute, "something is applied", r.applied)
}

// empty waits until the directory is empty.
func (r *running) empty(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(waits.Limit(time.Minute)); ; {
		entries, err := os.ReadDir(r.dir)
		if err == nil && len(entries) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left: %v, %v", entries, err)
		}
		<-time.After(time.Millisecond)
	}
}

func put(t *testing.T, dir string, r queue.Release) queue.Release {
	t.Helper()
	if err := queue.Put(dir, r); err != nil {
		t.Fatal(err)
	}
	return r
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReleaseDrain_BeforeAndAfterStart_Applied(t *testing.T) {
	dir := t.TempDir()
	before := put(t, dir, queue.Release{ContainerID: "a", IfName: "eth0", PodInterfaceID: "a-eth0"})
	r := start(t, dir, drain.Config{Every: never}, nil)
	if got := r.next(t); got != before {
		t.Errorf("got %+v, want %+v", got, before)
	}
	r.empty(t)
	later := put(t, dir, queue.Release{ContainerID: "b", IfName: "net1"})
	if got := r.next(t); got != later {
		t.Errorf("got %+v, want %+v", got, later)
	}
	write(t, filepath.Join(dir, "c"), "") // as a client of CNS does
	if got := r.next(t); got.ContainerID != "c" {
		t.Errorf("got %+v", got)
	}
	r.empty(t)
}

func TestReleaseDrain_DirectoryMissingOrReplaced_Watched(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "queue")
	r := start(t, dir, drain.Config{Every: never}, nil)
	r.empty(t)
	for i := range 3 {
		want := put(t, dir, queue.Release{ContainerID: fmt.Sprintf("c%d", i), IfName: "eth0"})
		if got := r.next(t); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		r.empty(t)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		r.empty(t) // it is there again
	}
}

func TestReleaseDrain_OneFails_RetriedOthersProceed(t *testing.T) {
	dir := t.TempDir()
	bad := put(t, dir, queue.Release{ContainerID: "a", IfName: "eth0"})
	good := put(t, dir, queue.Release{ContainerID: "b", IfName: "eth0"})
	failures := 0
	metrics, results := counted(t)
	r := start(t, dir, drain.Config{Every: never, FirstWait: time.Millisecond, LastWait: 4 * time.Millisecond, Metrics: metrics}, func(q queue.Release) error {
		if q == bad && failures < 5 {
			failures++
			return errors.New("the journal can't be written")
		}
		return nil
	})
	if got := r.next(t); got != good {
		t.Errorf("first %+v, want %+v", got, good)
	}
	if got := r.next(t); got != bad {
		t.Errorf("then %+v, want %+v", got, bad)
	}
	r.empty(t)
	if r.stop(); failures != 5 {
		t.Errorf("%d failures", failures)
	}
	wantCounted(t, results(), 2, 5, 0)
}

func TestReleaseDrain_FailedBeforeRestart_Kept(t *testing.T) {
	dir := t.TempDir()
	want := put(t, dir, queue.Release{ContainerID: "a", IfName: "eth0"})
	asked := make(chan struct{}, 1000)
	first := start(t, dir, drain.Config{Every: never, FirstWait: never}, func(queue.Release) error {
		asked <- struct{}{}
		return errors.New("not now")
	})
	<-asked
	first.stop()
	if got := start(t, dir, drain.Config{Every: never}, nil).next(t); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestReleaseDrain_FileRewritten_AppliedAgain(t *testing.T) {
	dir := t.TempDir()
	want := put(t, dir, queue.Release{ContainerID: "a", IfName: "eth0"})
	once := true
	r := start(t, dir, drain.Config{Every: never, FirstWait: time.Millisecond}, func(queue.Release) error {
		if once {
			once = false
			return queue.Put(dir, want) // a DEL of the same name during the release
		}
		return nil
	})
	for range 2 {
		if got := r.next(t); got != want {
			t.Errorf("got %+v", got)
		}
	}
	r.empty(t)
}

func TestReleaseDrain_HostileFiles_NoHarm(t *testing.T) {
	parent := t.TempDir()
	dir, secret := filepath.Join(parent, "queue"), filepath.Join(parent, "secret")
	good := put(t, dir, queue.Release{ContainerID: "zz", IfName: "eth0"})
	write(t, secret, "of another")
	write(t, filepath.Join(dir, "huge"), strings.Repeat("x", 1<<20))
	write(t, filepath.Join(dir, "line\nfeed"), "x")
	write(t, filepath.Join(dir, ".hidden"), "x")
	write(t, filepath.Join(dir, "killed:eth0.release.new"), "half")
	err := errors.Join(
		os.Symlink(secret, filepath.Join(dir, "link")), os.Symlink("/", filepath.Join(dir, "root")),
		os.Mkdir(filepath.Join(dir, "empty"), 0o700), os.MkdirAll(filepath.Join(dir, "full", "of"), 0o700),
		os.Chtimes(filepath.Join(dir, "killed:eth0.release.new"), time.Time{}, time.Now().Add(-time.Hour)),
	)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "full", "of", "files"), "x")
	metrics, results := counted(t)
	r := start(t, dir, drain.Config{Every: never, Metrics: metrics}, nil)
	if got := r.next(t); got != good {
		t.Errorf("got %+v, want %+v", got, good)
	}
	r.empty(t)
	r.stop()
	wantCounted(t, results(), 1, 0, 8)
	if text, err := os.ReadFile(secret); err != nil || string(text) != "of another" {
		t.Errorf("the file of another: %q, %v", text, err)
	}
	if aside, err := filepath.Glob(filepath.Join(parent, "queue.rejected", "*", "of", "files")); err != nil || len(aside) != 1 {
		t.Errorf("moved aside: %v, %v", aside, err)
	}
	select {
	case got := <-r.applied:
		t.Errorf("applied: %+v", got)
	default:
	}
}

func TestReleaseDrain_FileBeingWritten_Kept(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a:eth0.release.new"), "half")
	r := start(t, dir, drain.Config{Every: never}, nil)
	put(t, dir, queue.Release{ContainerID: "b", IfName: "eth0"})
	r.next(t)
	r.stop()
	if _, err := os.Stat(filepath.Join(dir, "a:eth0.release.new")); err != nil {
		t.Error(err)
	}
}

func TestReleaseDrain_ThousandReleases_AllApplied(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir, drain.Config{Every: never}, nil)
	const all = 1000
	for i := range all {
		// As clients of CNS do, which flush nothing.
		write(t, filepath.Join(dir, fmt.Sprintf("c%d", i)), "x")
	}
	seen := map[queue.Release]bool{}
	for len(seen) < all {
		got := r.next(t)
		got.PodInterfaceID = ""
		seen[got] = true
	}
	r.empty(t)
}
