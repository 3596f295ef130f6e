// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package delegate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/delegate"
	"github.com/alioth-net/alioth/cnid/cni/delegate/delegatetest"
	"github.com/alioth-net/alioth/test/waits"
)

func TestDelegateADD_Failure_UndoneAndPluginNamed(t *testing.T) {
	cases := map[string]struct {
		conf delegatetest.Conf
		says string
	}{
		"an error of CNI":                  {atAdd(delegatetest.Error), "CNI plugin fake-two: ADD failed: try again; the pool is empty (code 11)"},
		"no output":                        {atAdd(delegatetest.Silent), "no error message: exit status 3"},
		"messages only":                    {atAdd(delegatetest.Grumble), `no error message: exit status 1; on its standard error: "the disk is full"`},
		"an output that is no error":       {atAdd(delegatetest.Confused), `exit status 2, and its output is not an error of CNI: "panic: oh"`},
		"success without a result":         {atAdd(delegatetest.Nothing), `ADD failed: its output is not a result of CNI: ""`},
		"success with garbage":             {atAdd(delegatetest.Garbage), `ADD failed: its output is not a result of CNI: "hello"`},
		"an endless output":                {atAdd(delegatetest.Flood), "more than 1048576 bytes and was killed"},
		"a child that holds the output":    {atAdd(delegatetest.Orphan), "left processes that hold its output"},
		"a result that is null":            {delegatetest.Conf{Result: []byte(`null`)}, "not a result of CNI"},
		"a result of an unknown version":   {delegatetest.Conf{Result: []byte(`{"cniVersion":"7.0.0"}`)}, "7.0.0"},
		"a result with a wrong index":      {delegatetest.Conf{Result: []byte(`{"ips":[{"address":"192.0.2.1/24","interface":4}]}`)}, "of interface 4"},
		"a result with a wrong address":    {delegatetest.Conf{Result: []byte(`{"ips":[{"address":"192.0.2.1/99"}]}`)}, "can't be read"},
		"a result with a null interface":   {delegatetest.Conf{Result: []byte(`{"interfaces":[null]}`)}, "null"},
		"a plugin that ignores CNI_IFNAME": {delegatetest.Conf{As: "eth0"}, "fake-two made interface eth0 in the pod, not net1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			result, err := r.Add(t.Context(), r.attachment(t, "1.0.0", c.conf))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %+v, %v; want %q", result, err, c.says)
			}
			// CNI: a delegate that fails MUST be undone by DEL.
			if diff := cmp.Diff([]string{"ADD fake-one", "ADD fake-two", "DEL fake-two", "DEL fake-one"}, r.ran(t)); diff != "" {
				t.Errorf("runs (-want +got):\n%s", diff)
			}
			r.expectNothingKept(t)
			expectGone(t, delegatetest.Calls(t, r.log))
		})
	}
}

func TestDelegateErrors_EachKind_Matchable(t *testing.T) {
	r := newRig(t, nil)
	_, err := r.Add(t.Context(), r.attachment(t, "1.0.0", atAdd(delegatetest.Error)))
	var failed *delegate.PluginError
	if !errors.As(err, &failed) || failed.Plugin != "fake-two" || failed.Code != 11 || failed.Msg != "try again" || failed.Details != "the pool is empty" {
		t.Errorf("%#v", err)
	}
	if _, err = r.Add(t.Context(), r.attachment(t, "1.0.0", delegatetest.Conf{As: "eth0"})); !errors.Is(err, delegate.ErrIfName) {
		t.Errorf("%v", err)
	}
	calls := delegatetest.Calls(t, r.log)
	if last := calls[len(calls)-1]; !bytes.Contains(last.Stdin, []byte(`"eth0"`)) {
		t.Errorf("the DEL of a refused result lacks it: %s", last.Stdin)
	}
}

func TestDelegate_Deadline_PluginAndChildrenKilled(t *testing.T) {
	r := newRig(t, func(cfg *delegate.Config) { cfg.Wait = time.Second })
	_, err := r.Add(t.Context(), r.attachment(t, "1.0.0", atAdd(delegatetest.Hang)))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "fake-two: ADD did not end in time and was killed") {
		t.Errorf("%v", err)
	}
	calls := delegatetest.Calls(t, r.log)
	if len(calls) != 4 || len(calls[1].Pids) != 2 {
		t.Fatalf("runs are %+v", calls)
	}
	expectGone(t, calls)
	r.expectNothingKept(t)
}

func TestDelegateADD_Canceled_KilledAndUndone(t *testing.T) {
	r := newRig(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	a := r.attachment(t, "1.0.0", atAdd(delegatetest.Hang))
	go func() {
		_, err := r.Add(ctx, a)
		done <- err
	}()
	eventually(t, "the plugin runs", func() bool { return len(r.ran(t)) == 2 })
	// The daemon may be killed here: its successor finds all it needs.
	all, err := r.All()
	if err != nil || len(all) != 1 || all[0].IfName != "net1" || len(all[0].RawResult) != 0 || !r.Alive(all[0]) {
		t.Errorf("kept before the ADD has ended are %+v, %v", all, err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	expectGone(t, delegatetest.Calls(t, r.log))
	r.expectNothingKept(t)
}

// of returns the attachment as one of another pod.
func of(a delegate.Attachment, namespace, container string) delegate.Attachment {
	a.ContainerID = container
	a.Args = append(slices.Clone(a.Args), [2]string{"K8S_POD_NAMESPACE", namespace})
	return a
}

func TestDelegate_LimitReached_NextPluginWaits(t *testing.T) {
	r := newRig(t, func(cfg *delegate.Config) { cfg.Slots = delegate.Slots{Pod: 1, Namespace: 2, Node: 2} })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	a := r.attachment(t, "1.0.0", atAdd(delegatetest.Hang))
	go func() {
		defer close(done)
		_, _ = r.Add(ctx, a)
	}()
	eventually(t, "the plugin runs", func() bool { return len(r.ran(t)) == 2 })
	other := r.attachment(t, "1.0.0", delegatetest.Conf{})
	other.IfName = "net2"
	waiting, stop := context.WithCancel(t.Context())
	stop()
	if _, err := r.Add(waiting, other); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "did not run") {
		t.Errorf("%v", err)
	}
	cancel()
	<-done
	r.expectNothingKept(t)
	if _, err := r.Add(t.Context(), other); err != nil {
		t.Errorf("when a slot is free: %v", err)
	}
}

// TestDelegate_HangingPlugins_OtherPodsServed: the plugins of one namespace use all slots of the
// namespace. The rig sets the limits of time, and no test reaches them.
func TestDelegate_HangingPlugins_OtherPodsServed(t *testing.T) {
	r := newRig(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var hanging sync.WaitGroup
	for i := range 3 * delegate.DefaultSlots.Namespace {
		a := of(r.attachment(t, "1.0.0", atAdd(delegatetest.Hang)), "bad", fmt.Sprintf("bad%d", i))
		hanging.Go(func() { _, _ = r.Add(ctx, a) })
	}
	eventually(t, "the namespace has its slots", func() bool { return len(r.ran(t)) == 2*delegate.DefaultSlots.Namespace })
	good := of(r.attachment(t, "1.0.0", delegatetest.Conf{}), "good", "good")
	if _, err := r.Add(t.Context(), good); err != nil {
		t.Error(err)
	}
	if err := r.Del(t.Context(), good.ContainerID, good.IfName); err != nil {
		t.Error(err)
	}
	if ran := len(r.ran(t)); ran != 2*delegate.DefaultSlots.Namespace+4 {
		t.Errorf("%d plugins have run", ran)
	}
	cancel()
	hanging.Wait()
}

// TestDelegateDEL_OneFails_OthersOfPodProceed: as many of a pod's DELs hang as it has slots.
// The next attempt begins with the others.
func TestDelegateDEL_OneFails_OthersOfPodProceed(t *testing.T) {
	r := newRig(t, func(cfg *delegate.Config) {
		cfg.Slots, cfg.UndoWait = delegate.Slots{Pod: 1, Namespace: 1, Node: 1}, waits.Limit(time.Second)
	})
	hangs := r.attachment(t, "1.0.0", delegatetest.Conf{Do: map[string]delegatetest.Behaviour{"DEL": delegatetest.Hang}})
	if _, err := r.Add(t.Context(), hangs); err != nil {
		t.Fatal(err)
	}
	if err := r.Del(t.Context(), hangs.ContainerID, hangs.IfName); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the DEL that hangs: %v", err)
	}
	works := r.attachment(t, "1.0.0", delegatetest.Conf{})
	works.IfName = "net2"
	if _, err := r.Add(t.Context(), works); err != nil {
		t.Fatal(err)
	}
	// One more holds the slot while both come, the one that hangs first.
	holder := r.attachment(t, "1.0.0", atAdd(delegatetest.Hang))
	holder.IfName = "net3"
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	before := len(r.ran(t))
	all.Go(func() { _, _ = r.Add(ctx, holder) })
	eventually(t, "the slot is taken", func() bool { return len(r.ran(t)) == before+2 })
	for i, name := range []string{hangs.IfName, works.IfName} {
		all.Go(func() { _ = r.Del(t.Context(), "sandbox", name) })
		eventually(t, "the DEL waits", func() bool { return delegate.Waiting(r.Delegates) == i+1 })
	}
	cancel()
	all.Wait()
	var dels []string
	for _, call := range delegatetest.Calls(t, r.log)[before:] {
		if name := call.Var("CNI_IFNAME"); call.Command() == "DEL" && name != holder.IfName && !slices.Contains(dels, name) {
			dels = append(dels, name)
		}
	}
	if diff := cmp.Diff([]string{works.IfName, hangs.IfName}, dels); diff != "" {
		t.Errorf("order of the DELs (-want +got):\n%s", diff)
	}
}

// daemonOf is the environment variable that makes this program a daemon with a directory of
// state, a directory of plugins and an attachment, in JSON.
const daemonOf = "ALIOTH_TEST_DAEMON"

type daemonInput struct {
	Dir, Plugins string
	Attachment   delegate.Attachment
}

// daemon returns only after a failure: the test kills it during the ADD.
func daemon(text string) error {
	var in daemonInput
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return err
	}
	d, err := delegate.New(delegate.Config{Dir: in.Dir, Plugins: []string{in.Plugins}, Root: "/", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = d.Add(context.Background(), in.Attachment)
	return err
}

// A plugin that outlives its daemon would make an interface that the next daemon has undone.
func TestDelegate_DaemonDies_PluginEndsAndUndone(t *testing.T) {
	r := newRig(t, nil)
	text, err := json.Marshal(daemonInput{r.cfg.Dir, r.cfg.Plugins[1], r.attachment(t, "1.0.0", atAdd(delegatetest.Hang))})
	if err != nil {
		t.Fatal(err)
	}
	first := exec.Command("/proc/self/exe")
	first.Env = []string{daemonOf + "=" + string(text)}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin runs", func() bool { return len(r.ran(t)) == 2 })
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	calls := delegatetest.Calls(t, r.log)
	eventually(t, "the plugin ends", func() bool { return ended(calls[1].Pids[0]) })
	_ = unix.Kill(calls[1].Pids[1], unix.SIGKILL) // its child; in a pod it ends with the container
	if err := r.Del(t.Context(), "sandbox", "net1"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ADD fake-one", "ADD fake-two", "DEL fake-two", "DEL fake-one"}, r.ran(t)); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	r.expectNothingKept(t)
}

// A configuration MUST NOT change between ADD and DEL.
func TestDelegateDEL_Failure_RepeatedUnchangedUntilSuccess(t *testing.T) {
	r := newRig(t, nil)
	a := r.attachment(t, "1.0.0", delegatetest.Conf{Do: map[string]delegatetest.Behaviour{"DEL": delegatetest.Error}})
	if _, err := r.Add(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err := r.Del(t.Context(), a.ContainerID, a.IfName)
		if err == nil || !strings.Contains(err.Error(), "fake-two: DEL failed: try again") {
			t.Errorf("%v", err)
		}
		r.restart(t)
	}
	calls := delegatetest.Calls(t, r.log)
	if diff := cmp.Diff(calls[2].Stdin, calls[3].Stdin); diff != "" {
		t.Errorf("configuration of two DELs:\n%s", diff)
	}
	if all, err := r.All(); err != nil || len(all) != 1 {
		t.Errorf("kept are %+v, %v", all, err)
	}
}

func TestDelegateDEL_FailsLikeADD_NothingKept(t *testing.T) {
	r := newRig(t, nil)
	both := map[string]delegatetest.Behaviour{"ADD": delegatetest.Error, "DEL": delegatetest.Error}
	if _, err := r.Add(t.Context(), r.attachment(t, "1.0.0", delegatetest.Conf{Do: both})); err == nil || strings.Contains(err.Error(), "undoing") {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff([]string{"ADD fake-one", "ADD fake-two", "DEL fake-two", "DEL fake-one"}, r.ran(t)); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	r.expectNothingKept(t)
}

func TestDelegateDEL_PluginNeverRan_NothingKept(t *testing.T) {
	r := newRig(t, nil)
	a := r.attachment(t, "1.0.0", delegatetest.Conf{Do: map[string]delegatetest.Behaviour{"DEL": delegatetest.Error}})
	a.Conf = bytes.Replace(a.Conf, []byte(`"type":"fake-one"`), []byte(`"do":{"ADD":"silent"},"type":"fake-one"`), 1)
	if _, err := r.Add(t.Context(), a); err == nil || strings.Contains(err.Error(), "undoing") {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff([]string{"ADD fake-one", "DEL fake-two", "DEL fake-one"}, r.ran(t)); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	r.expectNothingKept(t)
}

func TestDelegateADD_UndoFails_ReportedAndKept(t *testing.T) {
	for name, add := range map[string]delegatetest.Behaviour{"another error": delegatetest.Silent, "a deadline": delegatetest.Hang} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(cfg *delegate.Config) { cfg.Wait = time.Second })
			do := map[string]delegatetest.Behaviour{"ADD": add, "DEL": delegatetest.Error}
			_, err := r.Add(t.Context(), r.attachment(t, "1.0.0", delegatetest.Conf{Do: do}))
			if err == nil || !strings.Contains(err.Error(), "undoing it failed, a DEL will try again: CNI plugin fake-two: DEL failed: try again") {
				t.Errorf("%v", err)
			}
			if all, err := r.All(); err != nil || len(all) != 1 {
				t.Errorf("kept are %+v, %v", all, err)
			}
		})
	}
}

func TestDelegateGC_UnknownContainer_Removed(t *testing.T) {
	r := newRig(t, nil)
	a := r.attachment(t, "1.0.0", delegatetest.Conf{Do: map[string]delegatetest.Behaviour{"DEL": delegatetest.Unknown}})
	if _, err := r.Add(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := r.Del(t.Context(), a.ContainerID, a.IfName); err != nil {
		t.Errorf("%v", err)
	}
	r.expectNothingKept(t)
}

func TestDelegateStore_DamagedFile_MovedAside(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON": `{"containerID":"sand`, "empty": ``, "another attachment's": "", "a path as container": `{"containerID":"../../x","ifName":"net1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			a := r.attachment(t, "1.0.0", delegatetest.Conf{})
			if _, err := r.Add(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(r.cfg.Dir, "*.json"))
			if err != nil || len(files) != 1 {
				t.Fatalf("%v, %v", files, err)
			}
			if name == "another attachment's" {
				good, err := os.ReadFile(files[0])
				if err != nil {
					t.Fatal(err)
				}
				text = strings.Replace(string(good), `"net1"`, `"net2"`, 1)
			}
			if err := os.WriteFile(files[0], []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := r.Del(t.Context(), a.ContainerID, a.IfName); err != nil {
				t.Errorf("a pod could not end: %v", err)
			}
			if _, err := os.Stat(files[0] + ".damaged"); err != nil || !strings.Contains(r.messages.String(), "level=ERROR") {
				t.Errorf("%v; log: %s", err, r.messages)
			}
			if all, err := r.All(); err != nil || len(all) != 0 {
				t.Errorf("kept are %+v, %v", all, err)
			}
		})
	}
}

func TestDelegateADD_RecordUnwritable_NoPluginRun(t *testing.T) {
	r := newRig(t, nil)
	if err := os.RemoveAll(r.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Add(t.Context(), r.attachment(t, "1.0.0", delegatetest.Conf{})); err == nil || !strings.Contains(err.Error(), "make room") {
		t.Errorf("%v", err)
	}
	if ran := r.ran(t); len(ran) != 0 {
		t.Errorf("runs are %v", ran)
	}
}
