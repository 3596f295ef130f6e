// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// attempt is how long one of several attempts may take.
const attempt = 1500 * time.Millisecond

// Answers without the name of a server.
const (
	anybody = "anybody"
	refused = "a refusal"
	nothing = "no answer"
)

// tool runs the test tool somewhere, and returns its output.
type tool func(ctx context.Context, arguments ...string) (string, error)

func (l *lab) in(pod *corev1.Pod) tool {
	return func(ctx context.Context, arguments ...string) (string, error) {
		return l.Exec(ctx, pod, scene.ToolIn(pod, arguments...)...)
	}
}

func (l *lab) on(host *cluster.Host) tool {
	return func(ctx context.Context, arguments ...string) (string, error) {
		return host.Exec(ctx, append([]string{l.Tool}, arguments...)...)
	}
}

func (l *lab) onNode(node string) tool {
	return func(ctx context.Context, arguments ...string) (string, error) {
		return l.Lab.NodeExec(ctx, node, append([]string{l.Tool}, arguments...)...)
	}
}

// question is a request of the test tool.
type question struct {
	from    tool
	targets []string
	// port is the source port of all attempts; 0 leaves it to the kernel.
	port uint16
	// text is sent over TCP and UDP, "hello" if it is empty.
	text string
}

// ask makes count attempts at each target. From one port it asks one target after the other,
// because two sockets can't share it.
func (q question) ask(ctx context.Context, count int, limit time.Duration) ([]report.Probe, error) {
	rounds := [][]string{q.targets}
	if q.port != 0 {
		rounds = nil
		for _, target := range q.targets {
			rounds = append(rounds, []string{target})
		}
	}
	var results []report.Probe
	for _, targets := range rounds {
		command := []string{"probe", "--timeout", limit.String(), "--count", fmt.Sprint(count), "--source-port", fmt.Sprint(q.port), "--text", q.text}
		out, err := q.from(ctx, append(command, targets...)...)
		if err != nil {
			return nil, err
		}
		some, err := scene.ParseLines[report.Probe](out)
		if err != nil {
			return nil, err
		}
		results = append(results, some...)
	}
	if len(results) != count*len(q.targets) {
		return results, fmt.Errorf("%d results for %d attempts at %v", len(results), count, q.targets)
	}
	return results, nil
}

// await asks until each target gives the answer: a server's name, or one of the answers
// above.
func (q question) await(t *testing.T, want string) {
	t.Helper()
	until(t, "the answer "+want, func(ctx context.Context) (bool, string, error) {
		results, err := q.ask(ctx, 1, attempt)
		wrong := wrongAmong(results, want)
		return err == nil && len(wrong) == 0, strings.Join(wrong, "\n"), err
	})
}

// awaitAll asks until several servers have answered at each target.
func (q question) awaitAll(t *testing.T, want ...string) {
	t.Helper()
	for _, target := range q.targets {
		one := q
		one.targets = []string{target}
		heard := map[string]bool{}
		until(t, fmt.Sprint("answers of ", want), func(ctx context.Context) (bool, string, error) {
			results, err := one.ask(ctx, len(want), attempt)
			for _, r := range results {
				heard[r.Name] = true
			}
			for _, server := range want {
				if !heard[server] {
					return false, fmt.Sprint(heard), err
				}
			}
			return true, "", err
		})
	}
}

// expect asks count times, and requires that each attempt gives the answer.
func (q question) expect(t *testing.T, count int, want string) {
	t.Helper()
	results, err := q.ask(patience(t), count, stage.AnswerTime)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range wrongAmong(results, want) {
		t.Error(problem)
	}
}

// expectNothing requires that no target answers for a while.
func (q question) expectNothing(t *testing.T) {
	t.Helper()
	results, err := q.ask(patience(t), 1, attempt)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range wrongAmong(results, nothing) {
		t.Error(problem)
	}
}

// wrongAmong returns the results that are not the answer.
func wrongAmong(results []report.Probe, want string) (wrong []string) {
	for _, r := range results {
		right := r.OK && r.Name == want
		switch want {
		case anybody:
			right = r.OK
		case refused:
			right = !r.OK && strings.Contains(r.Error, "refused")
		case nothing:
			right = !r.OK
		}
		if !right {
			wrong = append(wrong, fmt.Sprintf("%s: answered %t by %q, %s; want %s", r.Target, r.OK, r.Name, r.Error, want))
		}
	}
	return wrong
}

// at writes targets, one for each protocol and cluster IP of a Service.
func at(service *corev1.Service, protocols ...string) []string {
	var targets []string
	for _, ip := range service.Spec.ClusterIPs {
		targets = append(targets, scene.Targets(protocols, netip.MustParseAddr(ip))...)
	}
	return targets
}

// expectUnseen requires that a pod's server never got a text. A message of this text was sent
// before others that the server has got, so it would have come by then.
func (l *lab) expectUnseen(t *testing.T, pod *corev1.Pod, texts ...string) {
	t.Helper()
	seen, err := l.Seen(patience(t), pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range seen {
		if slices.Contains(texts, message.Text) {
			t.Errorf("%s has got %q over %s from %s", pod.Name, message.Text, message.Proto, message.Peer)
		}
	}
}

// converse talks from a pod over one socket for each target, until the function that it
// returns is called.
func (l *lab) converse(t *testing.T, from *corev1.Pod, targets ...string) func() []report.Conversation {
	t.Helper()
	var results []report.Conversation
	running := l.Begin(stage.Within(t, 3*stage.Patience), from, &results, append([]string{"converse"}, targets...)...)
	if err := l.AwaitBegun(patience(t), running); err != nil {
		t.Fatal(err)
	}
	return func() []report.Conversation {
		t.Helper()
		if err := l.End(patience(t), running); err != nil {
			t.Fatal(err)
		}
		return results
	}
}

// converseOutside does the same from the host outside.
func (l *lab) converseOutside(t *testing.T, targets ...string) func() []report.Conversation {
	t.Helper()
	return l.converseFrom(t, l.host, targets...)
}

// converseFrom does the same from any host outside.
func (l *lab) converseFrom(t *testing.T, host *cluster.Host, targets ...string) func() []report.Conversation {
	t.Helper()
	stop := filepath.Join(t.TempDir(), "stop")
	ctx, outcome := stage.Within(t, 3*stage.Patience), make(chan error, 1)
	var out string
	go func() {
		var err error
		out, err = l.on(host)(ctx, append([]string{"converse", "--stop-file", stop, "--begun-file", stop + ".begun"}, targets...)...)
		outcome <- err
	}()
	until(t, "the host to get an answer", func(ctx context.Context) (bool, string, error) {
		_, err := host.Exec(ctx, "test", "-e", stop+".begun")
		return err == nil, "there is none", nil
	})
	return func() []report.Conversation {
		t.Helper()
		if _, err := host.Exec(patience(t), "touch", stop); err != nil {
			t.Fatal(err)
		}
		if err := <-outcome; err != nil {
			t.Fatal(err)
		}
		results, err := scene.ParseLines[[]report.Conversation](out)
		if err != nil || len(results) != 1 {
			t.Fatalf("%d results, %v", len(results), err)
		}
		return results[0]
	}
}

// expectUnbroken requires that one server has answered every line of each conversation.
func expectUnbroken(t *testing.T, conversations []report.Conversation, server string) {
	t.Helper()
	for _, c := range conversations {
		if c.Broken != 0 || c.Answered != c.Sent || len(c.Turns) != 1 || c.Turns[0].Name != server {
			t.Errorf("%s: %+v, want answers of %s alone", c.Target, c, server)
		}
	}
}
