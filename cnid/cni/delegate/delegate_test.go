// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package delegate_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/cniconf"
	"github.com/alioth-net/alioth/cnid/cni/delegate"
	"github.com/alioth-net/alioth/cnid/cni/delegate/delegatetest"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

// A runtime MUST run the plugins of a list in order for ADD and CHECK, in the reverse order
// for DEL, and pass the result of the one before (ADD) or the final one (CHECK, DEL).
func TestDelegate_EachVersion_ListCommandsRun(t *testing.T) {
	for _, version := range cniconf.Versions() {
		t.Run(version, func(t *testing.T) {
			r := newRig(t, nil)
			a := r.attachment(t, version, delegatetest.Conf{})
			result, err := r.Add(t.Context(), a)
			if err != nil {
				t.Fatalf("ADD: %v", err)
			}
			if _, ok := result.InPod("net1"); !ok && version >= "0.3.0" {
				t.Errorf("result is %+v", result)
			}
			r.restart(t)
			if err := r.Check(t.Context(), a.ContainerID, a.IfName); err != nil {
				t.Errorf("CHECK: %v", err)
			}
			for range 2 { // DEL MUST succeed where nothing is left
				if err := r.Del(t.Context(), a.ContainerID, a.IfName); err != nil {
					t.Errorf("DEL: %v", err)
				}
			}
			want := []string{"ADD fake-one", "ADD fake-two", "CHECK fake-one", "CHECK fake-two", "DEL fake-two", "DEL fake-one"}
			prev := []string{"", "fake-one", "fake-two", "fake-two", "fake-two", "fake-two"}
			if version < "0.4.0" {
				want, prev = slices.Delete(want, 2, 4), []string{"", "fake-one", "", ""}
			}
			if diff := cmp.Diff(want, r.ran(t)); diff != "" {
				t.Fatalf("runs (-want +got):\n%s", diff)
			}
			for i, call := range delegatetest.Calls(t, r.log) {
				expectCall(t, call, r, version, prev[i])
			}
			r.expectNothingKept(t)
		})
	}
}

func expectCall(t *testing.T, call delegatetest.Call, r *rig, version, prevBy string) {
	t.Helper()
	wantEnv := []string{
		"CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAME=p", "CNI_COMMAND=" + call.Command(), "CNI_CONTAINERID=sandbox", "CNI_IFNAME=net1",
		"CNI_NETNS=" + r.pod.Path, "CNI_PATH=" + strings.Join(r.cfg.Plugins, ":"), "PATH=" + delegate.DefaultEnvPath,
	}
	slices.Sort(call.Env)
	if diff := cmp.Diff(wantEnv, call.Env); diff != "" {
		t.Errorf("environment of %s (-want +got):\n%s", call.Command(), diff)
	}
	var stdin struct {
		CNIVersion, Name string
		Big              json.RawMessage
		PrevResult       *struct {
			CNIVersion string
			By         string `json:"x-by"`
		}
	}
	if err := json.Unmarshal(call.Stdin, &stdin); err != nil {
		t.Fatal(err)
	}
	if stdin.CNIVersion != version || stdin.Name != "net" {
		t.Errorf("%s got %s", call.Command(), call.Stdin)
	}
	if call.Type == "fake-one" && string(stdin.Big) != "12345678901234567890" {
		t.Errorf("the number became %s", stdin.Big)
	}
	switch {
	case prevBy == "":
		if stdin.PrevResult != nil {
			t.Errorf("%s %s got the result %+v", call.Command(), call.Type, stdin.PrevResult)
		}
	case stdin.PrevResult == nil || stdin.PrevResult.By != prevBy || stdin.PrevResult.CNIVersion != version:
		t.Errorf("%s %s got %s, want the result of %s", call.Command(), call.Type, call.Stdin, prevBy)
	}
}

// NPWG 1.2: one network twice is two attachments, and the same tuple of container, network
// and interface MUST be used for ADD and DEL.
func TestDelegate_NetworkTwice_TwoAttachmentsSameDELTuple(t *testing.T) {
	r := newRig(t, nil)
	for _, name := range []string{"net1", "net2"} {
		a := r.attachment(t, "1.0.0", delegatetest.Conf{})
		a.IfName = name
		if _, err := r.Add(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Del(t.Context(), "sandbox", "net1"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, call := range delegatetest.Calls(t, r.log) {
		got = append(got, call.Command()+" "+call.Var("CNI_CONTAINERID")+" "+call.Var("CNI_IFNAME"))
	}
	want := []string{
		"ADD sandbox net1", "ADD sandbox net1", "ADD sandbox net2", "ADD sandbox net2", "DEL sandbox net1", "DEL sandbox net1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if all, err := r.All(); err != nil || len(all) != 1 || all[0].IfName != "net2" {
		t.Errorf("kept are %+v, %v", all, err)
	}
}

func TestDelegate_RepeatedADD_FirstUndone(t *testing.T) {
	r := newRig(t, nil)
	a := r.attachment(t, "1.0.0", delegatetest.Conf{})
	for range 2 {
		if _, err := r.Add(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"ADD fake-one", "ADD fake-two", "DEL fake-two", "DEL fake-one", "ADD fake-one", "ADD fake-two"}
	if diff := cmp.Diff(want, r.ran(t)); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

func TestDelegateDEL_NamespaceGone_NonePassed(t *testing.T) {
	r := newRig(t, nil)
	a := r.attachment(t, "1.0.0", delegatetest.Conf{})
	if _, err := r.Add(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	r.pod.Close(t)
	if all, err := r.All(); err != nil || len(all) != 1 || r.Alive(all[0]) {
		t.Errorf("kept are %+v, %v", all, err)
	}
	if err := r.Del(t.Context(), a.ContainerID, a.IfName); err != nil {
		t.Fatal(err)
	}
	for _, call := range delegatetest.Calls(t, r.log)[2:] {
		if path := call.Var("CNI_NETNS"); path != "" {
			t.Errorf("%s of %s got the namespace %s", call.Command(), call.Type, path)
		}
	}
}

func TestDelegateDEL_OtherNamespaceAtPath_NotReached(t *testing.T) {
	r := newRig(t, nil)
	a := r.attachment(t, "1.0.0", delegatetest.Conf{})
	path := filepath.Join(t.TempDir(), "netns")
	if err := os.Symlink(r.pod.Path, path); err != nil {
		t.Fatal(err)
	}
	a.NetnsPath = path
	if _, err := r.Add(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), os.Symlink(netnstest.New(t).Path, path)); err != nil {
		t.Fatal(err)
	}
	if err := r.Del(t.Context(), a.ContainerID, a.IfName); err != nil {
		t.Fatal(err)
	}
	if got := delegatetest.Calls(t, r.log)[2].Var("CNI_NETNS"); got != "" {
		t.Errorf("DEL got the namespace %s, whose path another namespace has now", got)
	}
}

func TestDelegate_AmbiguousInputs_Refused(t *testing.T) {
	r := newRig(t, nil)
	for name, edit := range map[string]func(*delegate.Attachment){
		"container ID":          func(a *delegate.Attachment) { a.ContainerID = "../../x" },
		"interface":             func(a *delegate.Attachment) { a.IfName = "a/b" },
		"semicolon in CNI_ARGS": func(a *delegate.Attachment) { a.Args = [][2]string{{"K8S_POD_NAME", "p;K8S_POD_UID=other"}} },
		"equals sign in a key":  func(a *delegate.Attachment) { a.Args = [][2]string{{"a=b", "c"}} },
		"no list":               func(a *delegate.Attachment) { a.Conf = []byte(`{"cniVersion":"1.0.0","name":"n","type":"fake-one"}`) },
		"an unknown version": func(a *delegate.Attachment) {
			a.Conf = []byte(`{"cniVersion":"3","name":"n","plugins":[{"type":"fake-one"}]}`)
		},
		"a plugin with a path": func(a *delegate.Attachment) {
			a.Conf = []byte(`{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"../../bin/fake-one"}]}`)
		},
		"a missing plugin": func(a *delegate.Attachment) {
			a.Conf = []byte(`{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"none"}]}`)
		},
		"a missing namespace": func(a *delegate.Attachment) { a.NetnsPath = "/none" },
	} {
		t.Run(name, func(t *testing.T) {
			a := r.attachment(t, "1.0.0", delegatetest.Conf{})
			edit(&a)
			if result, err := r.Add(t.Context(), a); err == nil {
				t.Errorf("got %+v", result)
			}
			if ran := r.ran(t); len(ran) != 0 {
				t.Errorf("runs are %v", ran)
			}
		})
	}
}

func TestDelegate_PluginRun_InNodeMountNamespace(t *testing.T) {
	seen := t.TempDir()
	r := newRig(t, nil)
	ns := mountNamespace(t, seen)
	r.cfg.Enter = []string{filepath.Join(r.cfg.Plugins[1], "enter"), ns}
	r.restart(t)
	r.log = filepath.Join(seen, "log")
	if _, err := r.Add(t.Context(), r.attachment(t, "1.0.0", delegatetest.Conf{})); err != nil {
		t.Fatal(err)
	}
	if here := r.ran(t); len(here) != 0 {
		t.Errorf("the plugins ran in the daemon's mount namespace: %v", here)
	}
	r.log = filepath.Join(filepath.Dir(filepath.Dir(ns)), "root", seen, "log")
	if there := r.ran(t); len(there) != 2 {
		t.Errorf("in the node's mount namespace ran %v", there)
	}
}
