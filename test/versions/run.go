// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/cluster"
)

// tester runs combinations in one work tree.
type tester struct {
	root, commit string
	out          io.Writer
	// onLab returns the scenes that passed on a lab. It describes the lab in result.
	onLab func(ctx context.Context, c combination, result *run) (tests map[string]bool, err error)
}

func newTester(root, commit string, out io.Writer) *tester {
	t := &tester{root: root, commit: commit, out: out}
	t.onLab = t.testOnLab
	return t
}

// errLabUp is the error for a work tree whose lab is up.
var errLabUp = errors.New("a lab is up here, and this one needs its place: run first: make down")

// wholeLab is the name of a lab in the list of failures: it did not come up, tell its versions, or
// go down.
const wholeLab = "lab"

func (t *tester) progress(line string) { fmt.Fprintln(t.out, "versions:", line) }

// test runs one combination. The error is for events that say nothing about the combination, or
// about later ones: an interruption, or a lab that is up.
func (t *tester) test(ctx context.Context, c combination) (run, error) {
	t.progress("testing " + c.name)
	result := run{Name: c.name, Date: time.Now().UTC().Format(time.DateOnly), Commit: t.commit}
	tests, err := t.onLab(ctx, c, &result)
	if errors.Is(err, errLabUp) {
		return result, err
	}
	if ctx.Err() != nil {
		return result, errors.Join(ctx.Err(), err)
	}
	if err != nil {
		t.progress(fmt.Sprintf("%s: the lab failed: %v", c.name, err))
		result.Failed = append(result.Failed, wholeLab)
	}
	if tests == nil {
		tests = map[string]bool{}
	}
	for _, s := range c.onAPIServer() {
		maps.Copy(tests, t.run(ctx, s, apiserver.Variable+"="+c.Kubernetes))
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		if tests[name] {
			result.Passed++
		} else {
			result.Failed = append(result.Failed, name)
		}
	}
	return result, ctx.Err()
}

// testOnLab brings a lab up, describes it in result, and returns which of the scenes passed.
func (t *tester) testOnLab(ctx context.Context, c combination, result *run) (tests map[string]bool, err error) {
	if _, err := cluster.Open(t.root); !errors.Is(err, cluster.ErrNotUp) {
		return nil, errLabUp
	}
	defer func() {
		// The lab goes also after an interruption.
		down := cluster.Down(context.WithoutCancel(ctx), t.root, cluster.DefaultDir(t.root), t.progress)
		err = errors.Join(err, down)
	}()
	lab, err := cluster.Up(ctx, t.root, cluster.Options{Versions: c.Versions, Progress: t.progress})
	if err != nil {
		return nil, fmt.Errorf("bring up the lab of %s: %w", c.name, err)
	}
	if err := describe(ctx, lab, result); err != nil {
		return nil, err
	}
	tests = map[string]bool{}
	for _, s := range onLab() {
		maps.Copy(tests, t.run(ctx, s, "ALIOTH_E2E=1", "ALIOTH_E2E_KEEP=1"))
	}
	return tests, ctx.Err()
}

// describe asks the cluster for its versions.
func describe(ctx context.Context, lab *cluster.Cluster, result *run) error {
	raw, err := lab.Client().Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("ask the API server for its version: %w", err)
	}
	var server apiversion.Info
	if err := json.Unmarshal(raw, &server); err != nil {
		return fmt.Errorf("read the API server's version: %w", err)
	}
	nodes, err := lab.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("ask for the versions of the nodes: %w", err)
	}
	result.Kubernetes = server.GitVersion
	for i := range nodes.Items {
		info := nodes.Items[i].Status.NodeInfo
		result.Kubelet, result.Runtime, result.Kernel = info.KubeletVersion, info.ContainerRuntimeVersion, info.KernelVersion
	}
	return nil
}

// run runs the tests of a suite and returns the passed ones. A test that did not run, or was
// skipped, did not pass. A package that fails without a failed test is in the result too.
func (t *tester) run(ctx context.Context, s suite, env ...string) map[string]bool {
	args := []string{"test", "-vet=off", "-count=1", "-parallel=4", "-timeout=30m", "-v"}
	passed := map[string]bool{}
	if s.tests != nil {
		args = append(args, "-run=^("+strings.Join(s.tests, "|")+")$")
		for _, name := range s.tests {
			passed[s.dir+"."+name] = false
		}
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+s.dir)...)
	cmd.Dir, cmd.Env = t.root, append(os.Environ(), env...)
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	var err error
	go func() {
		err = cmd.Run()
		writer.Close()
	}()
	// The end of the pipe comes after the end of the command.
	maps.Copy(passed, t.readResults(reader, s.dir))
	if err != nil && !slices.Contains(slices.Collect(maps.Values(passed)), false) {
		passed[s.dir] = false
	}
	return passed
}

// ended matches the line of `go test -v` about a test that ended. Lines of subtests are indented.
var ended = regexp.MustCompile(`^--- (PASS|FAIL): (\S+) \(`)

// readResults repeats the output of tests, and returns which of them passed.
func (t *tester) readResults(output io.Reader, dir string) map[string]bool {
	passed := map[string]bool{}
	lines := bufio.NewReader(output)
	for {
		line, err := lines.ReadString('\n')
		fmt.Fprint(t.out, line)
		if match := ended.FindStringSubmatch(line); match != nil {
			passed[dir+"."+match[2]] = match[1] == "PASS"
		}
		if err != nil {
			return passed
		}
	}
}
