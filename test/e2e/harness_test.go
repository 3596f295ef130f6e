// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

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

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

const (
	// patience is how long something may take that should take seconds.
	patience = 90 * time.Second
	// answerTime is how long a probe that must be answered is repeated.
	answerTime = 10 * time.Second
	// silenceTime is how long a probe that must not be answered is repeated.
	silenceTime = 1500 * time.Millisecond
	// root of the work tree, seen from this package's folder.
	root = "../.."
)

// env is what every test gets: a scene on the lab, the lab itself, and the
// test tool as a program of this machine.
type env struct {
	*scene.Scene
	lab  *cluster.Cluster
	tool string
}

// open opens the lab once for all tests.
var open = sync.OnceValues(openEnv)

func TestMain(m *testing.M) {
	if os.Getenv("ALIOTH_E2E") != "1" {
		fmt.Fprintln(os.Stderr, "e2e: not run: set ALIOTH_E2E=1 (needs root, brings up a cluster), or use: make test-e2e")
		return
	}
	os.Exit(runAndClean(m))
}

// runAndClean takes the lab down again if the tests brought it up.
func runAndClean(m *testing.M) int {
	_, err := cluster.Open(root)
	mine := errors.Is(err, cluster.ErrNotUp)
	code := m.Run()
	if e, err := open(); err == nil {
		os.RemoveAll(filepath.Dir(e.tool))
	}
	if mine && os.Getenv("ALIOTH_E2E_KEEP") == "" {
		if err := cluster.Down(context.Background(), root, "", progress); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: take the lab down:", err)
			code = max(code, 1)
		}
	}
	return code
}

func progress(line string) { fmt.Fprintln(os.Stderr, "lab:", line) }

func openEnv() (*env, error) {
	lab, err := openLab()
	if err != nil {
		return nil, err
	}
	stage, err := scene.New(lab.Config(), lab)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "alioth-e2e-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the test tool: %w", err)
	}
	tool := filepath.Join(folder, "testtool")
	build := exec.Command("go", "build", "-o", tool, "./test/testtool")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the test tool: %w\n%s", err, out)
	}
	return &env{Scene: stage, lab: lab, tool: tool}, nil
}

// openLab opens the lab that is up, as it is, or brings one up.
func openLab() (*cluster.Cluster, error) {
	lab, err := cluster.Open(root)
	if errors.Is(err, cluster.ErrNotUp) {
		lab, err = cluster.Up(context.Background(), root, cluster.Options{Progress: progress})
	}
	if err != nil {
		return nil, fmt.Errorf("open the lab: %w", err)
	}
	if lab.CNI() != cluster.CNIAlioth || len(lab.Nodes()) < 2 {
		return nil, fmt.Errorf("the lab that is up has %d nodes and --cni %s, the tests need 2 with alioth: run first: make down", len(lab.Nodes()), lab.CNI())
	}
	return lab, nil
}

// start returns the shared lab, or fails the test.
func start(t *testing.T) *env {
	t.Helper()
	e, err := open()
	if err != nil {
		t.Fatalf("open the lab: %v", err)
	}
	return e
}

// within bounds what a test waits for.
func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// nodes are the names of the first two nodes.
func (e *env) nodes() (first, second string) {
	all := e.lab.Nodes()
	return all[0].Name, all[1].Name
}

// unique makes a name that no other test uses.
func unique(prefix string) string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	suffix := make([]byte, 5)
	for i := range suffix {
		suffix[i] = letters[rand.IntN(len(letters))]
	}
	return prefix + "-" + string(suffix)
}

// tenant creates a tenant for the time of a test; its name is made unique.
func (e *env) tenant(t *testing.T, spec scene.TenantSpec) *scene.Tenant {
	t.Helper()
	spec.Name = unique(spec.Name)
	tenant, err := e.SetUp(within(t, patience), spec)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := e.TearDown(ctx, tenant); err != nil {
			t.Errorf("clean up tenant %s: %v", tenant.Name, err)
		}
	})
	if err != nil {
		t.Fatalf("set up tenant %s: %v", tenant.Name, err)
	}
	return tenant
}

// create creates objects for the time of a test.
func (e *env) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := e.Create(within(t, patience), object); err != nil {
			t.Fatal(err)
		}
		e.removeAfter(t, object)
	}
}

// removeAfter deletes an object at the end of a test and waits until it is
// gone.
func (e *env) removeAfter(t *testing.T, object client.Object) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := e.Delete(ctx, object); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
}

// run creates pods, waits until they are Ready, and deletes them with their
// namespace.
func (e *env) run(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	if err := e.Start(within(t, patience), pods...); err != nil {
		t.Fatal(err)
	}
}

// exec runs a command in a pod, or fails the test.
func (e *env) exec(t *testing.T, pod *corev1.Pod, command ...string) string {
	t.Helper()
	out, err := e.Exec(within(t, patience), pod, command...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// onNode runs a command on a node, or fails the test. "testtool" stands for
// the test tool.
func (e *env) onNode(t *testing.T, node string, command ...string) string {
	t.Helper()
	if command[0] == "testtool" {
		command = append([]string{e.tool}, command[1:]...)
	}
	out, err := e.lab.NodeExec(within(t, patience), node, command...)
	if err != nil {
		t.Fatalf("on %s: %v\n%s", node, err, out)
	}
	return out
}

// inOrder joins lines that came from a map or from parallel work.
func inOrder(lines []string) string {
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
