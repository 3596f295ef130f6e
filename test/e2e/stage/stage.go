// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stage is the common part of the end-to-end suites: the lab that they share, the objects
// that each test may make on it, and the check after each test that all accounts of the cluster
// agree.
package stage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alioth-net/alioth/cnid/inspect/verify"
	"github.com/alioth-net/alioth/cnid/inspect/verify/collect"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/waits"
)

// Patience bounds waits that should take seconds. A suite with an emulated node has more patience,
// and sets it before its first test.
var Patience = 4 * time.Minute

// settle is how long differences may last after a test: longer than a daemon takes to look
// at everything in the kernel.
func settle() time.Duration { return waits.Limit(Patience / 2) }

const (
	// firstPause is the time between the first two comparisons of the cluster with
	// itself. It doubles up to longestPause.
	firstPause   = 250 * time.Millisecond
	longestPause = 2 * time.Second
)

// Env is the environment of every test: a scene on the lab, the lab itself, and the test tool as a
// program of this machine.
type Env struct {
	*scene.Scene
	Lab  *cluster.Cluster
	Tool string

	collector *collect.Collector
	leaving   leaving
}

// Suite opens its lab once for all of its tests.
type Suite struct {
	// name of the suite, root of the work tree seen from its folder.
	name, root string
	// lab is the lab to bring up if none is up.
	lab  cluster.Options
	open func() (*Env, error)
}

// NewSuite returns a suite on the lab of `make up`; nothing is up yet.
func NewSuite(name, root string) *Suite {
	return NewSuiteOn(name, root, cluster.Options{Dir: cluster.DefaultDir(root)})
}

// NewSuiteOn returns a suite on another lab, which has a folder of its own.
func NewSuiteOn(name, root string, lab cluster.Options) *Suite {
	lab.Progress = progress
	s := &Suite{name: name, root: root, lab: lab}
	s.open = sync.OnceValues(s.openEnv)
	return s
}

// Main runs the tests if ALIOTH_E2E=1 is set, and returns the exit code. It
// takes the lab down again if the tests brought it up.
func (s *Suite) Main(m *testing.M) int {
	if os.Getenv("ALIOTH_E2E") != "1" {
		fmt.Fprintf(
			os.Stderr,
			"%s: not run: set ALIOTH_E2E=1 (needs root, brings up a cluster), or use: make test-e2e\n",
			s.name,
		)
		return 0
	}
	_, err := cluster.OpenIn(s.root, s.lab.Dir)
	mine := errors.Is(err, cluster.ErrNotUp)
	code := m.Run()
	if e, err := s.open(); err == nil {
		os.RemoveAll(filepath.Dir(e.Tool))
		if err := e.awaitLeft(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", s.name, err)
			code = max(code, 1)
		}
	}
	if mine && os.Getenv("ALIOTH_E2E_KEEP") == "" {
		if err := cluster.Down(context.Background(), s.root, s.lab.Dir, progress); err != nil {
			fmt.Fprintf(os.Stderr, "%s: take the lab down: %v\n", s.name, err)
			code = max(code, 1)
		}
	}
	return code
}

func progress(line string) { fmt.Fprintln(os.Stderr, "lab:", line) }

func (s *Suite) openEnv() (*Env, error) {
	lab, err := s.openLab()
	if err != nil {
		return nil, err
	}
	e, err := NewEnv(lab)
	if err != nil {
		return nil, err
	}
	// A virtual machine sees the lab's folder and no other of the host.
	folder, err := lab.ScratchDir(s.name)
	if err != nil {
		return nil, err
	}
	e.Tool = filepath.Join(folder, "testtool")
	build := exec.Command("go", "build", "-o", e.Tool, "./test/testtool")
	build.Dir, build.Env = s.root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the test tool: %w\n%s", err, out)
	}
	return e, nil
}

// NewEnv returns an Env on a lab, without the test tool.
func NewEnv(lab *cluster.Cluster) (*Env, error) {
	e := &Env{Lab: lab}
	var err error
	if e.Scene, err = scene.New(lab.Config(), lab); err != nil {
		return nil, err
	}
	if e.collector, err = collect.New(lab.Config(), cluster.SystemNamespace); err != nil {
		return nil, err
	}
	return e, nil
}

// openLab opens the lab that is up, as it is, or brings one up.
func (s *Suite) openLab() (*cluster.Cluster, error) {
	lab, err := cluster.OpenIn(s.root, s.lab.Dir)
	if errors.Is(err, cluster.ErrNotUp) {
		lab, err = cluster.Up(context.Background(), s.root, s.lab)
	}
	if err != nil {
		return nil, fmt.Errorf("open the lab: %w", err)
	}
	if lab.CNI() != cluster.CNIAlioth || len(lab.Nodes()) < 2 {
		return nil, fmt.Errorf(
			"the lab that is up has %d nodes and --cni %s, the tests need 2 with alioth: run first: make down",
			len(lab.Nodes()),
			lab.CNI(),
		)
	}
	return lab, nil
}

// Start returns the suite's lab, or fails the test. At the end of the test,
// when everything that it made is gone, it requires that claims, pods,
// journals, devices and maps agree. So it is called first in a test.
func (s *Suite) Start(t *testing.T) *Env {
	t.Helper()
	e, err := s.open()
	if err != nil {
		t.Fatalf("open the lab: %v", err)
	}
	t.Cleanup(func() { e.ExpectAgreement(t) })
	return e
}

// awaitLeft waits until nothing of any test is left.
func (e *Env) awaitLeft() error {
	ctx, cancel := context.WithTimeout(context.Background(), waits.Limit(Patience))
	defer cancel()
	return e.AwaitLeft(ctx)
}

// ExpectAgreement fails the test for every difference between the cluster's own accounts of itself
// that lasts for longer than settle says. It leaves out differences that name a tenant of a test
// that runs beside: that test may break its own pods, and looks for itself at its end.
func (e *Env) ExpectAgreement(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), settle()+waits.Limit(Patience))
	defer cancel()
	began := time.Now()
	left, err := e.differences(ctx, t)
	pause := firstPause
	for ; err == nil && len(left) > 0 && time.Since(began) < settle(); pause = min(2*pause, longestPause) {
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		var now []verify.Difference
		now, err = e.differences(ctx, t)
		left = slices.DeleteFunc(now, func(d verify.Difference) bool { return !slices.ContainsFunc(left, d.SameAs) })
	}
	t.Logf("the cluster was compared with itself for %s", time.Since(began).Round(100*time.Millisecond))
	if err != nil {
		t.Errorf("compare what is known of the cluster: %v", err)
	}
	for _, difference := range left {
		t.Errorf("the cluster does not agree with itself: %s", difference)
	}
}

// differences reads the cluster once.
func (e *Env) differences(ctx context.Context, t *testing.T) ([]verify.Difference, error) {
	beside := e.leaving.beside(t)
	found, err := e.collector.Differences(ctx, "", 0)
	return slices.DeleteFunc(found, func(d verify.Difference) bool {
		return slices.ContainsFunc(beside, func(name string) bool { return strings.Contains(d.String(), name) })
	}), err
}

// Within bounds the waits of a test.
func Within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	return waits.Within(t, limit)
}

// Unique makes a name that no other test uses.
func Unique(prefix string) string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	suffix := make([]byte, 5)
	for i := range suffix {
		suffix[i] = letters[rand.IntN(len(letters))]
	}
	return prefix + "-" + string(suffix)
}
