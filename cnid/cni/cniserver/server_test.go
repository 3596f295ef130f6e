// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

func TestADD_Repeated_SameResult(t *testing.T) {
	r := newRig(t)
	p := r.newPod(t, 1)
	first := r.add(t, p)
	r.decide(p.uid, attachment.Decision{}) // must not be needed
	if diff := cmp.Diff(first, r.add(t, p)); diff != "" {
		t.Errorf("answers (-first +second):\n%s", diff)
	}
	if r.programs != 2 {
		t.Errorf("the datapath was asked %d times, want 2: the second answer is as good as the first", r.programs)
	}
	r.expectAttached(t, p)
	if got, _ := r.journal.Get(p.key()); got.Seq != 1 {
		t.Errorf("the journal has attachment %d, want the first", got.Seq)
	}
}

func TestADD_DamagedAttachment_Recreated(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*testing.T, *rig, *pod)
	}{
		{"the device was removed", func(t *testing.T, r *rig, p *pod) {
			rec, err := r.journal.Get(p.key())
			if err != nil {
				t.Fatal(err)
			}
			r.node.Do(t, func() error { return deleteLink(rec.HostIfName) })
		}},
		{"the sandbox is now another pod's", func(_ *testing.T, r *rig, p *pod) {
			p.uid = "uid-later"
			r.decide(p.uid, p.decision)
		}},
		{"the sandbox has another namespace, its own has ended", func(t *testing.T, r *rig, p *pod) {
			r.end(t, *p)
			p.netns = r.newPod(t, 2).netns
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			p := r.newPod(t, 1)
			r.add(t, p)
			tc.spoil(t, r, &p)
			r.add(t, p)
			r.expectAttached(t, p)
			if rec, _ := r.journal.Get(p.key()); rec.Seq != 2 || rec.Pod.UID != p.uid {
				t.Errorf("the journal has attachment %d of %s", rec.Seq, rec.Pod.UID)
			}
			r.del(t, p)
			r.expectEmpty(t)
		})
	}
}

func TestADD_SecondNamespaceForContainer_Refused(t *testing.T) {
	r := newRig(t)
	p := r.newPod(t, 1)
	r.add(t, p)
	second := p
	second.netns = r.newPod(t, 2).netns
	resp := r.server.Do(t.Context(), second.request("ADD"))
	if resp.Error == nil || resp.Error.Code != types.ErrInvalidNetNS || !strings.Contains(resp.Error.Msg, p.netns.Path) {
		t.Errorf("got %+v, want an error that names %s", resp.Error, p.netns.Path)
	}
	r.expectAttached(t, p)
	if got := second.netns.Links(t); len(got) != 0 {
		t.Errorf("the other namespace got %v", got)
	}
}

func TestSandbox_NewOneAdded_OldOneRemoved(t *testing.T) {
	r := newRig(t)
	old := r.newPod(t, 1)
	r.add(t, old)
	fresh := old // the same pod
	fresh.containerID, fresh.netns = "sandbox-later", r.newPod(t, 2).netns
	r.add(t, fresh)
	r.end(t, old)
	r.del(t, old)
	r.expectAttached(t, fresh)
	if resp := r.server.Do(t.Context(), old.request("DEL")); resp.Error != nil {
		t.Errorf("a repeated DEL: %v", resp.Error)
	}
	r.expectAttached(t, fresh)
}

// TestADD_CallerGone_Undone has the runtime go away at each step, as
// when it reaches its own deadline.
func TestADD_CallerGone_Undone(t *testing.T) {
	for _, step := range []string{beforeAwait, beforeAttach, afterAttach, beforeProgram} {
		t.Run(step, func(t *testing.T) {
			r := newRig(t)
			p := r.newPod(t, 1)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			r.at = func(now string) error {
				if now != step {
					return nil
				}
				leave()
				return ctx.Err()
			}
			if resp := r.server.Do(ctx, p.request("ADD")); resp.Error == nil || resp.Error.Code != cniapi.CodeNotReady {
				t.Errorf("got %+v, want code %d", resp.Error, cniapi.CodeNotReady)
			}
			r.expectEmpty(t)
		})
	}
}

func TestADD_Failure_NothingLeft(t *testing.T) {
	broken := errors.New("step is broken")
	for _, tc := range []struct {
		step     string
		code     uint
		released bool
	}{
		{beforeAwait, cniapi.CodeFailed, false},
		{beforeAttach, cniapi.CodeFailed, true},
		{afterAttach, cniapi.CodeFailed, true},
		{beforeProgram, cniapi.CodeNotReady, true},
		{afterProgram, cniapi.CodeNotReady, true},
	} {
		t.Run(tc.step, func(t *testing.T) {
			r := newRig(t)
			p := r.newPod(t, 1)
			r.at = func(step string) error {
				if step == tc.step {
					return broken
				}
				return nil
			}
			resp := r.server.Do(t.Context(), p.request("ADD"))
			if resp.Error == nil || resp.Error.Code != tc.code || !strings.Contains(resp.Error.Msg, broken.Error()) {
				t.Errorf("got %v, want code %d", resp.Error, tc.code)
			}
			r.expectEmpty(t)
			if got := len(r.released) == 1 && len(r.journal.Releases()) == 1; got != tc.released {
				t.Errorf("released %v, queue %v", r.released, r.journal.Releases())
			}
			r.at = func(string) error { return nil }
			r.add(t, p)
			r.expectAttached(t, p)
		})
	}
}

func TestADD_DatapathError_ReasonReachesRuntimeUnchanged(t *testing.T) {
	r := newRig(t)
	r.at = func(step string) error {
		if step == beforeProgram {
			return &attachment.NotReady{Reason: "another pod with this IP has probes"}
		}
		return nil
	}
	resp := r.server.Do(t.Context(), r.newPod(t, 1).request("ADD"))
	want := "network is not ready - another pod with this IP has probes"
	if resp.Error == nil || resp.Error.Code != cniapi.CodeNotReady || resp.Error.Msg != want ||
		strings.Count(resp.Error.Msg, "not ready") != 1 {
		t.Errorf("got %v", resp.Error)
	}
	r.expectEmpty(t)
}

func TestADD_UndoFails_NextDELUndoes(t *testing.T) {
	r := newRig(t)
	p := r.newPod(t, 1)
	r.at = func(step string) error {
		if step == beforeProgram || step == beforeDetach {
			return errors.New("broken " + step)
		}
		return nil
	}
	resp := r.server.Do(t.Context(), p.request("ADD"))
	if resp.Error == nil || !strings.Contains(resp.Error.Msg, "broken "+beforeProgram) {
		t.Errorf("ADD: %v", resp.Error)
	}
	if rec, err := r.journal.Get(p.key()); err != nil || rec.Phase != journal.PhaseLeaving {
		t.Errorf("the journal has phase %q, %v", rec.Phase, err)
	}
	if resp := r.server.Do(t.Context(), p.request("DEL")); resp.Error == nil {
		t.Error("DEL hides that the device is still there")
	}
	r.at = func(string) error { return nil }
	r.del(t, p)
	r.expectEmpty(t)
}

// crash is the value of a step's panic that stands for the death of the process. No code of ours
// runs behind it, as none defers any undoing.
type crash struct{}

func doUntilCrash(r *rig, req cniapi.Request) (crashed bool) {
	defer func() {
		if p := recover(); p != nil {
			_, crashed = p.(crash)
			if !crashed {
				panic(p)
			}
		}
	}()
	r.server.Do(context.Background(), req)
	return false
}

func TestDaemon_CrashAtEachStep_SuccessorCleansUp(t *testing.T) {
	for _, tc := range []struct {
		command, step string
		// attached reports that the attachment was finished and is kept until its DEL.
		attached bool
	}{
		{"ADD", beforeAwait, false},
		{"ADD", beforeConfirm, false},
		{"ADD", beforeAttach, false},
		{"ADD", afterAttach, false},
		{"ADD", beforeProgram, true},
		{"ADD", afterProgram, true},
		{"DEL", beforeUnprogram, false},
		{"DEL", beforeDetach, false},
		{"DEL", afterDetach, false},
		{"DEL", beforeRelease, false},
	} {
		t.Run(tc.command+" "+tc.step, func(t *testing.T) {
			r := newRig(t)
			p := r.newPod(t, 1)
			if tc.command == "DEL" {
				r.add(t, p)
			}
			r.at = func(step string) error {
				if step == tc.step {
					panic(crash{})
				}
				return nil
			}
			if !doUntilCrash(r, p.request(tc.command)) {
				t.Fatal("the daemon did not come to that step")
			}
			r.restart(t)
			if tc.attached {
				r.expectAttached(t, p)
				r.add(t, p) // the runtime may ask again
				r.expectAttached(t, p)
			} else {
				r.expectEmpty(t)
			}
			r.del(t, p)
			r.del(t, p)
			r.expectEmpty(t)
			began := tc.step != beforeAwait
			if got := len(r.journal.Releases()); got != map[bool]int{true: 1, false: 0}[began] {
				t.Errorf("%d attachments are queued for release", got)
			}
		})
	}
}

func TestDEL_NothingThere_Succeeds(t *testing.T) {
	r := newRig(t)
	p := r.newPod(t, 1)
	r.del(t, p) // never seen

	r.add(t, p)
	p.netns.Close(t)
	req := p.request("DEL")
	req.Netns, req.Args = "", ""
	if resp := r.server.Do(t.Context(), req); resp.Error != nil {
		t.Errorf("without the namespace: %v", resp.Error)
	}
	r.expectEmpty(t)
}

func TestDEL_JournalLost_DeviceRemoved(t *testing.T) {
	r := newRig(t)
	p := r.newPod(t, 1)
	r.add(t, p)
	if err := r.journal.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	r.programmed = map[journal.Key]bool{}
	r.start(t, newRegistry())
	r.del(t, p)
	r.expectEmpty(t)
}

func TestDEL_DatapathFails_Continues(t *testing.T) {
	r := newRig(t)
	p := r.newPod(t, 1)
	r.add(t, p)
	r.at = func(step string) error {
		if step == beforeUnprogram {
			return errors.New("map is full")
		}
		return nil
	}
	r.del(t, p)
	r.programmed = map[journal.Key]bool{}
	r.expectEmpty(t)
}

func TestErrors_EachKind_CNICodeForRuntime(t *testing.T) {
	r := newRig(t)
	p := r.newPod(t, 1)
	with := func(change func(*cniapi.Request)) cniapi.Request {
		req := p.request("ADD")
		change(&req)
		return req
	}
	gone := r.newPod(t, 2)
	gone.netns.Close(t)
	unknownKind := r.newPod(t, 3)
	unknownKind.decision.Kind = "pigeon"
	r.decide(unknownKind.uid, unknownKind.decision)
	for _, tc := range []struct {
		name string
		req  cniapi.Request
		code uint
		text string
	}{
		{"no JSON", with(func(q *cniapi.Request) { q.Config = []byte("hello") }), types.ErrDecodingFailure, "network configuration"},
		{"an old version", with(func(q *cniapi.Request) { q.Config = []byte(`{"cniVersion":"0.2.0"}`) }), types.ErrIncompatibleCNIVersion, "0.2.0"},
		{"no version", with(func(q *cniapi.Request) { q.Config = []byte(`{}`) }), types.ErrIncompatibleCNIVersion, "not served"},
		{"no container", with(func(q *cniapi.Request) { q.ContainerID = "" }), types.ErrUnknownContainer, "containerID"},
		{"a path as container", with(func(q *cniapi.Request) { q.ContainerID = "../../x" }), types.ErrInvalidEnvironmentVariables, "container"},
		{"a path as interface", with(func(q *cniapi.Request) { q.IfName = "a/b" }), types.ErrInvalidEnvironmentVariables, "interface"},
		{"no namespace", with(func(q *cniapi.Request) { q.Netns = "" }), types.ErrInvalidEnvironmentVariables, "CNI_NETNS"},
		{"no arguments", with(func(q *cniapi.Request) { q.Args = "" }), types.ErrInvalidEnvironmentVariables, "K8S_POD_NAMESPACE"},
		{"no UID", with(func(q *cniapi.Request) { q.Args = "K8S_POD_NAMESPACE=a;K8S_POD_NAME=b" }), types.ErrInvalidEnvironmentVariables, "K8S_POD_UID"},
		{"arguments without sense", with(func(q *cniapi.Request) { q.Args = "a;b=c" }), types.ErrInvalidEnvironmentVariables, "key=value"},
		{"another container in the arguments", with(func(q *cniapi.Request) { q.ContainerID = "other" }), types.ErrInvalidEnvironmentVariables, "INFRA_CONTAINER_ID"},
		{"an unknown command", with(func(q *cniapi.Request) { q.Command = "DANCE" }), types.ErrInvalidEnvironmentVariables, "DANCE"},
		{"a namespace that is gone", gone.request("ADD"), types.ErrInvalidNetNS, "gone"},
		{"a kind that is not here", unknownKind.request("ADD"), cniapi.CodeFailed, "pigeon"},
		{"a check of nothing", p.request("CHECK"), types.ErrUnknownContainer, "no attachment"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp := r.server.Do(t.Context(), tc.req)
			if resp.Error == nil || resp.Error.Code != tc.code || !strings.Contains(resp.Error.Msg, tc.text) {
				t.Errorf("got %+v, want code %d with %q", resp.Error, tc.code, tc.text)
			}
			r.expectEmpty(t)
		})
	}
}

func TestADD_PodGone_NotAwaited(t *testing.T) {
	r := newRig(t)
	p := r.newPod(t, 1)
	r.at = func(string) error { return attachment.ErrPodGone }
	resp := r.server.Do(t.Context(), p.request("ADD"))
	if resp.Error == nil || resp.Error.Code != cniapi.CodeFailed || !strings.Contains(resp.Error.Msg, "gone") {
		t.Errorf("got %+v", resp.Error)
	}
}

// TestADD_PodTerminatesMeanwhile_NotAttached: its addresses may be
// another one's already.
func TestADD_PodTerminatesMeanwhile_NotAttached(t *testing.T) {
	r := newRig(t)
	p := r.newPod(t, 1)
	r.at = func(step string) error {
		switch step {
		case beforeConfirm:
			if len(r.journal.Records()) != 1 {
				t.Error("the journal has no record that the releaser could see")
			}
			return attachment.ErrPodGone
		case beforeAttach:
			t.Error("it is attached all the same")
		}
		return nil
	}
	resp := r.server.Do(t.Context(), p.request("ADD"))
	if resp.Error == nil || resp.Error.Code != cniapi.CodeFailed || !strings.Contains(resp.Error.Msg, "gone") {
		t.Errorf("got %+v", resp.Error)
	}
	r.expectEmpty(t)
}

func TestCHECK_PodKernelAndResult_DifferencesFound(t *testing.T) {
	r := newRig(t)
	p := r.newPod(t, 1)
	result := r.add(t, p)
	check := func(prev string, change func(*cniapi.Request)) *types.Error {
		req := p.request("CHECK")
		req.Config = []byte(`{"cniVersion":"1.1.0","name":"alioth"` + prev + `}`)
		change(&req)
		return r.server.Do(t.Context(), req).Error
	}
	same := func(*cniapi.Request) {}
	previous := `,"prevResult":` + result
	if err := check(previous, same); err != nil {
		t.Errorf("right after ADD: %v", err)
	}
	if err := check("", same); err == nil || err.Code != types.ErrInvalidNetworkConfig {
		t.Errorf("without prevResult: %v", err)
	}
	if err := check(strings.ReplaceAll(previous, "10.10.1.2/24", "10.10.1.9/24"), same); err == nil || !strings.Contains(err.Msg, "10.10.1.2/24") {
		t.Errorf("with another address: %v", err)
	}
	if err := check(previous, func(q *cniapi.Request) { q.Args = strings.ReplaceAll(q.Args, p.uid, "uid-9") }); err == nil ||
		!strings.Contains(err.Msg, "belongs to") {
		t.Errorf("for another pod: %v", err)
	}
	delete(r.programmed, p.key())
	if err := check(previous, same); err == nil || !strings.Contains(err.Msg, "not programmed") {
		t.Errorf("when the datapath has lost it: %v", err)
	}
	r.programmed[p.key()] = true
	p.netns.Do(t, func() error { return deleteLink("eth0") })
	if err := check(previous, same); err == nil {
		t.Error("a removed device goes unnoticed")
	}
}

func TestSTATUS_DatapathState_ReportedUnchanged(t *testing.T) {
	r := newRig(t)
	req := cniapi.Request{Command: "STATUS", Config: []byte(`{"cniVersion":"1.1.0","name":"alioth"}`)}
	if resp := r.server.Do(t.Context(), req); resp.Error != nil {
		t.Errorf("ready: %v", resp.Error)
	}
	r.ready = errors.New("kernel lacks TCX")
	resp := r.server.Do(t.Context(), req)
	if resp.Error == nil || resp.Error.Code != cniapi.CodeUnavailable || !strings.Contains(resp.Error.Msg, "TCX") {
		t.Errorf("not ready: %+v", resp.Error)
	}
}

func TestCommandMetrics_EachVerbAndCode_Counted(t *testing.T) {
	r := newRig(t)
	p := r.newPod(t, 1)
	r.add(t, p)
	r.del(t, p)
	r.server.Do(t.Context(), cniapi.Request{Command: "x{y}", Config: []byte("{}")})
	r.at = func(string) error { return &attachment.NotReady{Reason: "no"} }
	r.server.Do(t.Context(), p.request("ADD"))
	want := `# HELP alioth_cnid_commands_total CNI commands by verb and by the CNI error code answered, 0 for success.
# TYPE alioth_cnid_commands_total counter
alioth_cnid_commands_total{code="0",verb="ADD"} 1
alioth_cnid_commands_total{code="11",verb="ADD"} 1
alioth_cnid_commands_total{code="0",verb="DEL"} 1
alioth_cnid_commands_total{code="1",verb="other"} 1
`
	if err := testutil.GatherAndCompare(r.registry, strings.NewReader(want), "alioth_cnid_commands_total"); err != nil {
		t.Error(err)
	}
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if h := m.GetHistogram(); h != nil {
				counts[f.GetName()+" "+m.GetLabel()[0].GetValue()] = h.GetSampleCount()
			}
		}
	}
	wantCounts := map[string]uint64{
		"alioth_cnid_add_seconds wait": 2, "alioth_cnid_add_seconds attach": 1,
		"alioth_cnid_add_seconds program": 1, "alioth_cnid_add_seconds total": 1, "alioth_cnid_attach_seconds " + string(p.decision.Kind): 1,
	}
	if diff := cmp.Diff(wantCounts, counts); diff != "" {
		t.Errorf("times observed (-want +got):\n%s", diff)
	}
}

func BenchmarkAdd(b *testing.B) {
	r := newRig(b)
	p := r.newPod(b, 1)
	for b.Loop() {
		r.add(b, p)
		b.StopTimer()
		r.del(b, p)
		b.StartTimer()
	}
}
