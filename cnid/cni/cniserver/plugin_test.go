// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/cni/cniserver"
)

func newRegistry() *prometheus.Registry { return prometheus.NewRegistry() }

func deleteLink(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkDel(link)
}

// plugin is the plugin binary as a runtime sees it, with a daemon behind it.
type plugin struct {
	*libcni.CNIConfig
	dir, socket string
}

// binaries is the directory of the programs that the tests run; TestMain makes it.
var binaries string

// build fills it when it is first needed.
var build = sync.OnceValue(func() error {
	for _, name := range []string{"github.com/alioth-net/alioth/cmd/alioth", "github.com/containernetworking/cni/cnitool"} {
		if out, err := exec.Command("go", "build", "-o", binaries, name).CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return nil
})

func TestMain(m *testing.M) {
	var err error
	if binaries, err = os.MkdirTemp("", "alioth-cniserver"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(binaries)
	os.Exit(code)
}

// buildPlugin returns the directory with the plugin binary.
func buildPlugin(t testing.TB) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return binaries
}

func newPlugin(t testing.TB, dir string) plugin {
	t.Helper()
	// Not in t.TempDir, whose path may be longer than a socket's may be.
	run, err := os.MkdirTemp("", "alioth-cni")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	return plugin{
		CNIConfig: libcni.NewCNIConfigWithCacheDir([]string{dir}, t.TempDir(), nil),
		dir:       dir, socket: filepath.Join(run, "run", "cnid.sock"),
	}
}

// serve runs the daemon's side until the returned function is called.
func (p plugin) serve(t testing.TB, r *rig) (stop func()) {
	t.Helper()
	l, err := cniserver.Listen(p.socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(cniapi.PathV1, r.server.Handler())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cniserver.Serve(ctx, l, p.socket, mux, r.server.Ready, slog.New(slog.DiscardHandler)) }()
	stopped := false
	stop = func() {
		t.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("serve: %v", err)
			}
		case <-time.After(soon):
			t.Error("the server does not stop")
		}
	}
	t.Cleanup(stop)
	return stop
}

func (p plugin) list(t testing.TB, version string) *libcni.NetworkConfigList {
	t.Helper()
	conf, err := json.Marshal(map[string]any{
		"cniVersion": version, "name": "alioth",
		"plugins": []map[string]any{{"type": "alioth", "socket": p.socket}},
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := libcni.ConfListFromBytes(conf)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func runtimeConf(p pod) *libcni.RuntimeConf {
	rt := &libcni.RuntimeConf{ContainerID: p.containerID, NetNS: p.netns.Path, IfName: "eth0"}
	for pair := range strings.SplitSeq(p.args(), ";") {
		key, value, _ := strings.Cut(pair, "=")
		rt.Args = append(rt.Args, [2]string{key, value})
	}
	return rt
}

func TestPlugin_EachVersion_FullPodLifeServed(t *testing.T) {
	dir := buildPlugin(t)
	for _, version := range cniapi.Versions() {
		t.Run(version, func(t *testing.T) {
			r, cni := newRig(t), newPlugin(t, dir)
			cni.serve(t, r)
			p := r.newPod(t, 1)
			list, rt := cni.list(t, version), runtimeConf(p)

			result, err := cni.AddNetworkList(t.Context(), list, rt)
			if err != nil {
				t.Fatalf("ADD: %v", err)
			}
			if diff := cmp.Diff(wantResult(t, r, p, version), decoded(t, result)); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			r.expectAttached(t, p)
			again, err := cni.AddNetworkList(t.Context(), list, rt)
			if diff := cmp.Diff(decoded(t, result), decoded(t, again)); err != nil || diff != "" {
				t.Errorf("ADD again: %v (-first +second):\n%s", err, diff)
			}
			err = cni.CheckNetworkList(t.Context(), list, rt)
			if version == "0.3.1" && !errors.Is(err, libcni.ErrorCheckNotSupp) || version != "0.3.1" && err != nil {
				t.Errorf("CHECK: %v", err)
			}
			if err := cni.GetStatusNetworkList(t.Context(), list); err != nil {
				t.Errorf("STATUS: %v", err)
			}
			keep := &libcni.GCArgs{ValidAttachments: []types.GCAttachment{{ContainerID: p.containerID, IfName: "eth0"}}}
			if err := cni.GCNetworkList(t.Context(), list, keep); err != nil {
				t.Errorf("GC: %v", err)
			}
			r.expectAttached(t, p)
			if err := cni.CheckNetworkList(t.Context(), list, rt); version != "0.3.1" && err != nil {
				t.Errorf("CHECK after GC: %v", err)
			}
			for _, which := range []string{"first", "second"} {
				if err := cni.DelNetworkList(t.Context(), list, rt); err != nil {
					t.Errorf("%s DEL: %v", which, err)
				}
			}
			r.expectEmpty(t)
			info, err := cni.GetVersionInfo(t.Context(), "alioth")
			if err != nil || !slices.Contains(info.SupportedVersions(), version) {
				t.Errorf("VERSION: %v, %v", info, err)
			}
			if diff := cmp.Diff(wantCommands(version), r.succeeded(t)); diff != "" {
				t.Errorf("commands that reached the daemon (-want +got):\n%s", diff)
			}
		})
	}
}

// wantCommands returns the commands of that life that a runtime of the version
// sends.
func wantCommands(version string) map[string]float64 {
	commands := map[string]float64{"ADD": 2, "DEL": 2}
	switch version {
	case "1.1.0":
		commands["STATUS"], commands["GC"] = 1, 1
		fallthrough
	case "0.4.0", "1.0.0":
		commands["CHECK"] = 2
	}
	return commands
}

// succeeded counts the commands that were answered without an error.
func (r *rig) succeeded(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	commands := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["code"] == "0" {
				commands[labels["verb"]] = m.GetCounter().GetValue()
			}
		}
	}
	return commands
}

// wantResult returns the answer to an ADD as the specification of that version
// wants it.
func wantResult(t *testing.T, r *rig, p pod, version string) map[string]any {
	rec, err := r.journal.Get(p.key())
	if err != nil {
		t.Fatal(err)
	}
	host := map[string]any{"name": rec.HostIfName, "mac": "02:a1:07:00:00:01"}
	inPod := map[string]any{"name": "eth0", "mac": "02:00:0a:0a:01:02", "sandbox": p.netns.Path}
	v4 := map[string]any{"address": "10.10.1.2/24", "gateway": "10.10.1.1", "interface": 1.0}
	v6 := map[string]any{"address": "fd10:10:0:1::2/64", "gateway": "fd10:10:0:1::1", "interface": 1.0}
	switch version {
	case "0.3.1", "0.4.0":
		v4["version"], v6["version"] = "4", "6"
	case "1.1.0":
		host["mtu"], inPod["mtu"] = 1450.0, 1450.0
	}
	return map[string]any{
		"cniVersion": version,
		"interfaces": []any{host, inPod},
		"ips":        []any{v4, v6},
		"routes":     []any{map[string]any{"dst": "0.0.0.0/0", "gw": "10.10.1.1"}, map[string]any{"dst": "::/0", "gw": "fd10:10:0:1::1"}},
	}
}

func decoded(t *testing.T, result types.Result) map[string]any {
	t.Helper()
	text, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	if dns, ok := out["dns"].(map[string]any); ok && len(dns) == 0 {
		delete(out, "dns") // older versions spell it out
	}
	return out
}

func TestPlugin_DaemonDown_ADDFailsDELSucceeds(t *testing.T) {
	r, cni := newRig(t), newPlugin(t, buildPlugin(t))
	p := r.newPod(t, 1)
	list, rt := cni.list(t, "1.1.0"), runtimeConf(p)
	_, err := cni.AddNetworkList(t.Context(), list, rt)
	var coded *types.Error
	if !errors.As(err, &coded) || coded.Code != cniapi.CodeNotReady ||
		!strings.HasPrefix(coded.Msg, "network is not ready - alioth-cnid on this node does not answer at "+cni.socket) {
		t.Errorf("ADD: %v", err)
	}
	if err := cni.DelNetworkList(t.Context(), list, rt); err != nil {
		t.Errorf("DEL: %v", err)
	}
	if err := cni.GetStatusNetworkList(t.Context(), list); err == nil {
		t.Error("STATUS of a node whose daemon was never there succeeds")
	}
	stop := cni.serve(t, r)
	if _, err := cni.AddNetworkList(t.Context(), list, rt); err != nil {
		t.Fatalf("ADD: %v", err)
	}
	stop()
	if err := cni.GetStatusNetworkList(t.Context(), list); err != nil {
		t.Errorf("STATUS right after the daemon stopped: %v", err)
	}
	if err := cni.DelNetworkList(t.Context(), list, rt); err != nil {
		t.Errorf("DEL: %v", err)
	}
	r.end(t, p) // as the runtime does next
	r.restart(t)
	r.expectEmpty(t)
}

func TestPlugin_NotReady_ReasonReachesRuntime(t *testing.T) {
	r, cni := newRig(t), newPlugin(t, buildPlugin(t))
	r.at = func(step string) error {
		if step == beforeAwait {
			return &attachment.NotReady{Reason: "IPInUse: 10.10.1.2 is held by pod customer-a/web-0"}
		}
		return nil
	}
	cni.serve(t, r)
	_, err := cni.AddNetworkList(t.Context(), cni.list(t, "1.1.0"), runtimeConf(r.newPod(t, 1)))
	var coded *types.Error
	want := "network is not ready - IPInUse: 10.10.1.2 is held by pod customer-a/web-0"
	if !errors.As(err, &coded) || coded.Code != cniapi.CodeNotReady || coded.Msg != want {
		t.Errorf("got %v, want code 11 with %q", err, want)
	}
	r.expectEmpty(t)
}

func TestServer_ConnectionClosedOrStop_WaitEnds(t *testing.T) {
	for _, how := range []string{"closed", "stopping"} {
		t.Run(how, func(t *testing.T) {
			r, cni := newRig(t), newPlugin(t, "")
			stop := cni.serve(t, r)
			p := r.newPod(t, 1)
			p.uid = "uid-nobody-decides-about"
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, err := cniapi.Client{Socket: cni.socket}.Do(ctx, p.request("ADD"))
				done <- err
			}()
			<-r.awaiting
			if how == "closed" {
				cancel()
			} else {
				stop()
			}
			select {
			case err := <-done:
				var coded *types.Error
				if !errors.As(err, &coded) || coded.Code != cniapi.CodeNotReady {
					t.Errorf("got %v", err)
				}
			case <-time.After(soon):
				t.Fatal("the client still waits")
			}
			// The container's lock is free again only when the daemon has
			// ended the wait.
			r.decide(p.uid, p.decision)
			r.add(t, p)
			r.expectAttached(t, p)
		})
	}
}

func TestSocket_CreateAndReplace_RootOnlyInPlace(t *testing.T) {
	cni := newPlugin(t, "")
	for range 2 {
		l, err := cniserver.Listen(cni.socket)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(cni.socket)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("socket: %v, %v", info, err)
		}
		dir, err := os.Stat(filepath.Dir(cni.socket))
		if err != nil || dir.Mode().Perm() != 0o700 {
			t.Errorf("directory: %v, %v", dir, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(cni.socket); err != nil {
			t.Errorf("after close: %v", err)
		}
	}
}
