// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cmd/aliothctl/options"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/inspect/verify"
)

func TestStatus_DaemonAnswers_AttachmentsAndProblemsShown(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "cnid.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NewServeMux())
	server.Config.Handler.(*http.ServeMux).Handle(nodestatus.Path, nodestatus.Handler(func(context.Context) nodestatus.Status {
		return nodestatus.Status{
			Node: "node1", Synced: true, Programmed: true, PodMTU: 1450, Problem: "the disk is full",
			Attachments: []nodestatus.Attachment{{
				Key: nodestatus.Key{ContainerID: "c", IfName: "eth0"}, Pod: nodestatus.Pod{Namespace: "ns", Name: "p1"}, VPC: "blue", VNI: 20,
				Addrs: []netip.Prefix{netip.MustParsePrefix("10.10.1.10/24")}, HostIfName: "alv000000000001", Kind: "netkit",
				Shadow4: netip.MustParseAddr("169.254.64.2"), Phase: "done",
			}, {
				Key: nodestatus.Key{ContainerID: "c", IfName: "net1"}, Pod: nodestatus.Pod{Namespace: "ns", Name: "p1"}, Outside: "physical",
			}},
			Releasing: []nodestatus.Attachment{{Pod: nodestatus.Pod{Namespace: "ns", Name: "p0"}}},
		}
	}))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	cmd := newCommand("aliothctl")
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs([]string{"status", "--socket", socket, "--bpf-dir", t.TempDir()})
	if err := cmd.ExecuteContext(t.Context()); err == nil {
		t.Error("missing maps are no error")
	}
	for _, want := range []string{"node1", "1450", "the disk is full", "ns/p1", "10.10.1.10/24", "169.254.64.2", "netkit", "physical (no VPC)", "ns/p0", "releasing"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
}

func TestStatus_DaemonMissing_HintShown(t *testing.T) {
	_, err := nodestatus.Fetch(t.Context(), filepath.Join(t.TempDir(), "none.sock"))
	if err == nil || !strings.Contains(err.Error(), "as root on the node") {
		t.Errorf("got %v", err)
	}
}

func TestStatus_JSONRoundTrip_Unchanged(t *testing.T) {
	in := nodestatus.Status{Node: "n", Attachments: []nodestatus.Attachment{{MAC: "02:00:01:02:03:04", Shadow4: netip.MustParseAddr("169.254.64.2")}}}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out nodestatus.Status
	if err := json.Unmarshal(text, &out); err != nil || out.Attachments[0].MAC != in.Attachments[0].MAC ||
		out.Attachments[0].Shadow4 != in.Attachments[0].Shadow4 {
		t.Errorf("got %+v, %v", out, err)
	}
}

func held() *v1alpha1.Address {
	return &v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: "blue.10.10.1.10", UID: "a1"},
		Spec: v1alpha1.AddressSpec{
			VPC: "blue", IP: "10.10.1.10", Node: "node1",
			Holder: v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: "ns", Name: "p1", UID: "u1"},
		},
	}
}

func TestRelease_HolderExists_RefusedUnlessForced(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p1", UID: "u1"}}
	successor := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p1", UID: "u2"}}
	cases := []struct {
		name    string
		objects []client.Object
		force   bool
		refused string
	}{
		{"the holder is gone", []client.Object{held()}, false, ""},
		{"the name has a successor", []client.Object{held(), successor.DeepCopy()}, false, ""},
		{"the holder is there", []client.Object{held(), pod.DeepCopy()}, false, "--force"},
		{"the holder is there, by force", []client.Object{held(), pod.DeepCopy()}, true, ""},
		{"there is no such address", nil, false, "not found"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, eventsv1.AddToScheme, v1alpha1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(c.objects...).Build()
			var out strings.Builder
			r := releaser{api: api, out: &out, force: c.force}
			err := r.release(t.Context(), "blue", netip.MustParseAddr("10.10.1.10"))
			gone := apierrors.IsNotFound(api.Get(context.Background(), client.ObjectKey{Name: "blue.10.10.1.10"}, &v1alpha1.Address{}))
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) || len(c.objects) > 0 && gone {
					t.Errorf("got %v, gone %v; want it refused with %q", err, gone, c.refused)
				}
				return
			}
			if err != nil || !gone {
				t.Fatalf("got %v, gone %v", err, gone)
			}
			var events eventsv1.EventList
			if err := api.List(t.Context(), &events, client.InNamespace("ns")); err != nil {
				t.Fatal(err)
			}
			if len(events.Items) != 1 || events.Items[0].Regarding.Name != "p1" || !strings.Contains(events.Items[0].Note, "blue.10.10.1.10") {
				t.Errorf("events: %+v", events.Items)
			}
			if !strings.Contains(out.String(), "Pod ns/p1") {
				t.Errorf("said %q", out.String())
			}
		})
	}
}

func TestDifferences_EachFormat_Printed(t *testing.T) {
	found := []verify.Difference{{Kind: verify.DeviceLeft, Node: "node1", Subject: "device alv1", What: "belongs to nothing", Do: "remove it"}}
	for _, c := range []struct {
		format string
		found  []verify.Difference
		want   string
	}{
		{options.Text, found, "node1: device alv1: belongs to nothing [DeviceLeft]; remove it\n"},
		{options.Text, nil, "no differences\n"},
		{options.JSON, nil, "[]\n"},
	} {
		var out strings.Builder
		cmd := newCommand("aliothctl")
		cmd.SetOut(&out)
		err := report(cmd, c.found, c.format)
		if out.String() != c.want || errors.Is(err, errDifferent) != (len(c.found) > 0) {
			t.Errorf("%s of %v: %q, %v; want %q", c.format, c.found, out.String(), err, c.want)
		}
	}
	var out strings.Builder
	if err := printDifferences(&out, found, options.JSON); err != nil {
		t.Fatal(err)
	}
	var read []verify.Difference
	if err := json.Unmarshal([]byte(out.String()), &read); err != nil || !slices.Equal(read, found) {
		t.Errorf("read back %v, %v", read, err)
	}
}

func TestExitStatus_DifferencesAndFailures_Distinct(t *testing.T) {
	if exitStatus(errDifferent) != 1 || exitStatus(errors.New("no route to host")) != 2 {
		t.Error("want 1 for differences and 2 for failures")
	}
	dir := t.TempDir()
	if _, err := run(t, "state", "rollback", "--dir", dir, "--root", dir); err == nil || exitStatus(err) != 1 {
		t.Errorf("without a change to undo: %v, exit status %d, want 1", err, exitStatus(err))
	}
	if _, err := run(t, "policy", "handle"); err == nil || exitStatus(err) != 2 {
		t.Errorf("a wrong command: %v, exit status %d, want 2", err, exitStatus(err))
	}
}

func TestVerify_WrongArguments_Refused(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"verify", "-o", "yaml"}, "want text or json"},
		{[]string{"verify", "--kubeconfig", "/nowhere"}, "kubeconfig"},
		{[]string{"verify", "node1"}, "unknown command"},
	} {
		cmd := newCommand("aliothctl")
		var out strings.Builder
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs(c.args)
		if err := cmd.ExecuteContext(t.Context()); err == nil || exitStatus(err) != 2 || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v", c.args, err)
		}
	}
}

func TestDump_DaemonAnswers_Printed(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "cnid.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: nodestatus.Handler(func(context.Context) nodestatus.Dump {
		return nodestatus.Dump{Status: nodestatus.Status{Node: "node1"}, Unreadable: []string{"a map"}}
	})}}
	server.Start()
	t.Cleanup(server.Close)
	cmd := newCommand("aliothctl")
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"dump", "--socket", socket})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	var dump nodestatus.Dump
	if err := json.Unmarshal([]byte(out.String()), &dump); err != nil || dump.Node != "node1" || len(dump.Unreadable) != 1 {
		t.Errorf("got %q, %v", out.String(), err)
	}
}
