// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/nodeipam/queue"
	"github.com/alioth-net/alioth/cnid/nodeipam/queue/drain"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest/resttest"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

// attached returns the number of attachments.
func attached(t *testing.T, service rest.Service) int {
	t.Helper()
	list, err := service.Attachments(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestPlugin_EachVersion_AllCommandsSucceed(t *testing.T) {
	for _, version := range []string{"0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		t.Run(version, func(t *testing.T) {
			r, service := newRig(t), &resttest.Service{IPv6: true}
			r.serve(service)
			c := command{container: "c", ifName: "net1", version: version}
			out, res := r.add(c)
			got := []string{}
			for _, ip := range res.IPs {
				got = append(got, ip.Address.String()+" via "+ip.Gateway.String())
			}
			for _, route := range res.Routes {
				got = append(got, route.Dst.String()+" via "+route.GW.String())
			}
			wantResult := []string{"192.0.2.2/24 via 192.0.2.1", "2001:db8::2/64 via 2001:db8::1", "0.0.0.0/0 via 192.0.2.1", "::/0 via 2001:db8::1"}
			if !slices.Equal(got, wantResult) {
				t.Errorf("%s", out)
			}
			want := rest.Request{
				Key: rest.Key{ContainerID: "c", IfName: "net1", PodInterfaceID: "c-net1"}, Pod: rest.Pod{Namespace: "blue", Name: "web-0", UID: "u-1"},
				Network: "lab", NetnsPath: "/run/netns/none",
			}
			if diff := cmp.Diff(want, service.Requests[0]); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
			if again, _ := r.add(c); again != out {
				t.Errorf("the second time: %s", again)
			}
			c.extra = map[string]any{"prevResult": json.RawMessage(out)}
			for _, verb := range []string{"CHECK", "STATUS"} {
				if verb == "CHECK" && version < "0.4.0" || verb == "STATUS" && version < "1.1.0" {
					continue
				}
				c.verb = verb
				if out, err := r.run(c); err != nil || out != "" {
					t.Errorf("%s: %s, %v", verb, out, err)
				}
			}
			c.verb = "DEL"
			for range 2 {
				if out, err := r.run(c); err != nil || out != "" || attached(t, service) != 0 {
					t.Errorf("DEL: %s, %v, %d attachments", out, err, attached(t, service))
				}
			}
			if _, err := os.Stat(r.queue); err == nil {
				t.Error("a release that was taken is queued as well")
			}
		})
	}
}

func TestPluginDEL_OneInterface_OthersKept(t *testing.T) {
	r, service := newRig(t), &resttest.Service{}
	r.serve(service)
	for _, name := range []string{"eth0", "net1"} {
		r.add(command{container: "c", ifName: name, version: "1.1.0"})
	}
	if _, err := r.run(command{verb: "DEL", container: "c", ifName: "net1", version: "1.1.0"}); err != nil || attached(t, service) != 1 {
		t.Errorf("%v, %d attachments", err, attached(t, service))
	}
}

func TestPluginGC_RuntimeKnownAttachments_Kept(t *testing.T) {
	r, service := newRig(t), &resttest.Service{}
	r.serve(service)
	_, err := r.run(
		command{verb: "GC", version: "1.1.0", extra: map[string]any{"cni.dev/valid-attachments": []any{map[string]string{"containerID": "a", "ifname": "eth0"}}}},
	)
	want := [][]rest.Key{{{ContainerID: "lab"}, {ContainerID: "a", IfName: "eth0"}}}
	if diff := cmp.Diff(want, service.Collected); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestPluginErrors_EachKind_CodesForRuntime(t *testing.T) {
	for _, tc := range []struct {
		name                  string
		err                   error
		add, del, check, stat uint
		text                  string
	}{
		{"will pass", &rest.NotReady{Reason: "no address yet"}, 11, 11, 11, 50, "network is not ready - no address yet"},
		{"will not", &rest.Failure{Code: wire.AddressUnavailable, Reason: "another address"}, 100, 100, 100, 50, "another address"},
		{"never asked for", &rest.Failure{Code: wire.InvalidParameter, Reason: "a strange name"}, 100, 0, 100, 50, "a strange name"},
	} {
		r := newRig(t)
		r.serve(&resttest.Service{Before: func(context.Context, string) error { return tc.err }})
		for verb, want := range map[string]uint{"ADD": tc.add, "DEL": tc.del, "CHECK": tc.check, "STATUS": tc.stat, "GC": tc.check} {
			_, err := r.run(command{verb: verb, container: "c", ifName: "eth0", version: "1.1.0"})
			if code(err) != want || want != 0 && !strings.HasPrefix(err.Error(), tc.text) {
				t.Errorf("%s, %s: code %d, %v, want %d", tc.name, verb, code(err), err, want)
			}
		}
	}
}

func TestPlugin_ServiceDown_EachCommandAnswered(t *testing.T) {
	r := newRig(t)
	for verb, want := range map[string]uint{"ADD": 11, "DEL": 0, "CHECK": 11, "GC": 11, "STATUS": 50} {
		_, err := r.run(command{verb: verb, container: "c", ifName: "eth0", version: "1.1.0"})
		if code(err) != want || want == 11 && !strings.HasPrefix(err.Error(), "network is not ready - the node IPAM API does not answer at "+r.socket()) {
			t.Errorf("%s: code %d, %v, want %d", verb, code(err), err, want)
		}
	}
	now, err := cniapi.Now()
	if err != nil {
		t.Fatal(err)
	}
	for problem, want := range map[string]uint{"": 0, "no TCX": 50} {
		if err := cniapi.WriteState(r.socket(), cniapi.State{Alive: now, Unavailable: problem}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.run(command{verb: "STATUS", version: "1.1.0"}); code(err) != want {
			t.Errorf("STATUS during a restart, problem %q: %v", problem, err)
		}
	}
}

func TestPluginRelease_DuringServiceRestart_AppliedAfter(t *testing.T) {
	r, service := newRig(t), &resttest.Service{}
	stop := r.serve(service)
	for _, name := range []string{"eth0", "net1"} {
		r.add(command{container: "c", ifName: name, version: "1.1.0"})
	}
	r.add(command{container: "d", ifName: "eth0", version: "1.1.0"})
	stop()
	for _, name := range []string{"eth0", "net1"} {
		if _, err := r.run(command{verb: "DEL", container: "c", ifName: name, version: "1.1.0"}); err != nil {
			t.Fatal(err)
		}
	}
	if attached(t, service) != 3 {
		t.Fatalf("%d attachments", attached(t, service))
	}
	r.serve(service)
	applied := make(chan error)
	queued := drain.New(drain.Config{Dir: r.queue, Log: slog.New(slog.DiscardHandler), Release: func(ctx context.Context, q queue.Release) error {
		err := r.server.Release(ctx, rest.Key(q))
		applied <- err
		return err
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { queued.Run(ctx); close(ended) }()
	for range 2 {
		if err := <-applied; err != nil {
			t.Error(err)
		}
	}
	cancel()
	<-ended
	if left, err := service.Attachments(t.Context(), ""); err != nil || len(left) != 1 || left[0].ContainerID != "d" {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestPluginDEL_QueueUnwritable_Fails(t *testing.T) {
	r := newRig(t)
	if err := os.WriteFile(r.queue, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.run(command{verb: "DEL", container: "c", ifName: "eth0", version: "1.1.0"}); code(err) != 11 ||
		!strings.Contains(err.Error(), "queue a release") {
		t.Errorf("%v: the address would never be released", err)
	}
}

func TestPlugin_MissingInput_Named(t *testing.T) {
	r := newRig(t)
	r.serve(&resttest.Service{})
	if _, err := r.run(command{verb: "ADD", container: "c", ifName: "eth0", version: "1.1.0", args: "K8S_POD_NAME=web-0"}); code(err) != 4 ||
		!strings.Contains(err.Error(), "K8S_POD_NAMESPACE") {
		t.Errorf("%v", err)
	}
	check := command{verb: "CHECK", container: "c", ifName: "eth0", version: "1.1.0", extra: map[string]any{"prevResult": map[string]any{"cniVersion": "1.1.0"}}}
	if _, err := r.run(check); code(err) != 100 || !strings.Contains(err.Error(), "nothing of container c is attached") {
		t.Errorf("CHECK before ADD: %v", err)
	}
	r.add(command{container: "c", ifName: "eth0", version: "1.1.0"})
	if _, err := r.run(check); err == nil || !strings.Contains(err.Error(), "prevResult lacks the address 192.0.2.2/24") {
		t.Errorf("CHECK of an earlier result: %v", err)
	}
	check.ifName = "net1"
	if _, err := r.run(check); code(err) != 100 || !strings.Contains(err.Error(), "net1") {
		t.Errorf("CHECK of another interface: %v", err)
	}
	if _, err := r.run(command{verb: "ADD", container: "c", ifName: "eth0", version: "1.1.0", extra: map[string]any{"ipam": map[string]any{"type": "alioth-ipam", "socket": 7}}}); code(
		err,
	) == 0 {
		t.Error("a socket that is a number")
	}
}

func TestPluginError_Permanent_CodeNamed(t *testing.T) {
	r := newRig(t)
	r.serve(&resttest.Service{Before: func(context.Context, string) error { return errors.New("no subnet") }})
	if out, err := r.run(command{verb: "ADD", container: "c", ifName: "eth0", version: "1.1.0"}); code(err) != 100 ||
		!strings.Contains(out, "FailedToAllocateIpConfig") {
		t.Errorf("%s, %v", out, err)
	}
}
