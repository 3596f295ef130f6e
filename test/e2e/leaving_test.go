// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// letFile is the file that a pod waits for before its server ends.
const letFile = "/tmp/let"

// untilLet has a deleted pod serve until that file exists.
func untilLet(pod *corev1.Pod) {
	pod.Spec.TerminationGracePeriodSeconds = ptr.To(int64((5 * patience).Seconds()))
	wait := []string{"sh", "-c", "until test -e " + letFile + "; do sleep 1; done"}
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: wait}}}
}

// conversations are the conversations of one pod with some servers, over one socket each.
type conversations struct {
	*stage.Running
	e       *env
	text    string
	results []report.Conversation
}

// converse has all asking pods talk, and returns once each has had answers.
func (f *fleet) converse(t *testing.T, targets []string) []*conversations {
	t.Helper()
	ctx := within(t, 3*patience)
	var list []*conversations
	for _, pod := range f.asking() {
		c := &conversations{e: f.e, text: unique(f.text(pod))}
		command := append([]string{"converse", "--interval", "200ms", "--text", c.text}, targets...)
		c.Running = f.e.Begin(ctx, pod, &c.results, command...)
		list = append(list, c)
	}
	for _, c := range list {
		if err := f.e.AwaitBegun(ctx, c.Running); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// end ends them and returns how they went.
func (c *conversations) end(t *testing.T) []report.Conversation {
	t.Helper()
	if err := c.e.End(within(t, patience), c.Running); err != nil {
		t.Errorf("%s: %v", c.Pod.Name, err)
	}
	return c.results
}

// newest returns the number of the last line that a server has had of a conversation; 0: none.
func (c *conversations) newest(ctx context.Context, server *corev1.Pod, target string) (int, error) {
	seen, err := c.e.Seen(ctx, server)
	newest := 0
	for _, message := range seen {
		if number, found := strings.CutPrefix(message.Text, c.text+"-"+target+" "); found {
			if newest, err = strconv.Atoi(number); err != nil {
				return 0, err
			}
		}
	}
	return newest, err
}

// awaitMore waits until a server has had two more lines: one may be on its way.
func (c *conversations) awaitMore(ctx context.Context, server *corev1.Pod, target string) error {
	before, err := c.newest(ctx, server, target)
	if err != nil {
		return err
	}
	return scene.Until(ctx, target+" to go on with "+server.Name, func(ctx context.Context) (bool, string, error) {
		now, err := c.newest(ctx, server, target)
		return err == nil && now >= before+2, fmt.Sprintf("line %d, then %d", before, now), err
	})
}

func (f *fleet) leavesByLabel(t *testing.T) {
	service := f.service(t, "label")
	f.leaves(t, service, f.backends[0], func() { f.put(t, service, f.backends[1]) })
}

// leavesByDeletion has the pod end gracefully: it serves on for a while.
func (f *fleet) leavesByDeletion(t *testing.T) {
	service := f.service(t, "deletion")
	f.leaves(t, service, f.leaver, func() {
		if err := f.e.Client.Delete(within(t, patience), f.leaver.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	})
	f.e.InPod(t, f.leaver, "touch", letFile)
	if err := f.e.WaitGone(within(t, patience), f.leaver); err != nil {
		t.Error(err)
	}
	f.expectHeard(t, f.asking(), vipTargets(service), f.backends[1])
}

// leaves has a backend with connections make room for another. TCP connections stay with the first,
// and everything else goes to the other from then on.
func (f *fleet) leaves(t *testing.T, service *corev1.Service, leaver *corev1.Pod, leave func()) {
	t.Helper()
	stays := f.backends[1]
	f.put(t, service, leaver)
	f.awaitHeard(t, f.asking(), at(service, "tcp", "udp"), leaver)
	long := f.converse(t, at(service, "tcp", "udp", "datagrams"))
	f.put(t, service, leaver, stays)
	f.awaitHeard(t, f.asking(), at(service, "tcp"), leaver, stays)
	leave()
	f.awaitHeard(t, f.asking(), at(service, "tcp", "udp"), stays)
	of := map[*corev1.Pod]*conversations{}
	for _, c := range long {
		of[c.Pod] = c
	}
	each(t, f.asking(), func(ctx context.Context, pod *corev1.Pod) error {
		for network, server := range map[string]*corev1.Pod{"tcp": leaver, "udp": stays, "datagrams": stays} {
			for _, target := range at(service, network) {
				if err := of[pod].awaitMore(ctx, server, target); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for _, c := range long {
		for _, result := range c.end(t) {
			f.expectTurns(t, c, result, leaver, stays)
		}
	}
}

// expectTurns requires that nothing was lost and no socket was ended.
func (f *fleet) expectTurns(t *testing.T, c *conversations, result report.Conversation, leaver, stays *corev1.Pod) {
	t.Helper()
	want := []*corev1.Pod{leaver, stays}
	if network, _, _ := strings.Cut(result.Target, "://"); network == "tcp" {
		want = want[:1]
	}
	var got, names []string
	for _, turn := range result.Turns {
		got = append(got, turn.Name)
	}
	for _, pod := range want {
		names = append(names, scene.ServerName(pod.Namespace, pod.Name))
	}
	if fmt.Sprint(got) != fmt.Sprint(names) || result.Broken != 0 || result.Answered != result.Sent {
		t.Errorf("%s: %+v, want answers of %v, and no socket ended", c.Pod.Name, result, names)
	}
}
