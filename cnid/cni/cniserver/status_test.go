// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/cni/cniserver"
)

func TestPlugin_STATUSGCAndVERSION_DaemonReachedIfNeeded(t *testing.T) {
	r, cni := newRig(t), newPlugin(t, buildPlugin(t))
	stop := cni.serve(t, r)
	list := cni.list(t, "1.1.0")
	if err := cni.GetStatusNetworkList(t.Context(), list); err != nil {
		t.Errorf("STATUS: %v", err)
	}
	r.ready = errors.New("kernel lacks TCX")
	if err := cni.GetStatusNetworkList(t.Context(), list); err == nil || !strings.Contains(err.Error(), "TCX") {
		t.Errorf("STATUS of a node that is not ready: %v", err)
	}
	p := r.newPod(t, 1)
	r.add(t, p)
	r.end(t, p)
	if err := cni.GCNetworkList(t.Context(), list, &libcni.GCArgs{}); err != nil {
		t.Errorf("GC: %v", err)
	}
	r.expectEmpty(t)
	stop()
	info, err := cni.GetVersionInfo(t.Context(), "alioth")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cniapi.Versions(), info.SupportedVersions()); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

// TestPlugin_DaemonRestart_RequestBridged asks the real plugin binary while no
// daemon runs, or one that does not answer.
func TestPlugin_DaemonRestart_RequestBridged(t *testing.T) {
	dir := buildPlugin(t)
	ago := func(t *testing.T, cni plugin, d time.Duration) {
		t.Helper()
		now, err := cniapi.Now()
		if err != nil {
			t.Fatal(err)
		}
		now.Uptime -= d
		if err := cniapi.WriteState(cni.socket, cniapi.State{Alive: now}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name string
		// ready is the daemon's reply while it runs.
		ready error
		then  func(t *testing.T, cni plugin, stop func())
		want  string
	}{
		{"it has just stopped", nil, func(_ *testing.T, _ plugin, stop func()) { stop() }, ""},
		{"it stopped a restart ago", nil, func(t *testing.T, cni plugin, stop func()) {
			stop()
			ago(t, cni, cniapi.RestartGrace-time.Second)
		}, ""},
		{"it stopped long ago", nil, func(t *testing.T, cni plugin, stop func()) {
			stop()
			ago(t, cni, 2*cniapi.RestartGrace)
		}, "does not answer"},
		{"it stopped and could attach no pod", errors.New("kernel lacks TCX"), func(_ *testing.T, _ plugin, stop func()) { stop() }, "kernel lacks TCX"},
		{"it hangs", nil, func(t *testing.T, cni plugin, stop func()) {
			stop()
			hang(t, cni)
		}, ""},
		{"it has hung for long", nil, func(t *testing.T, cni plugin, stop func()) {
			stop()
			hang(t, cni)
			ago(t, cni, 2*cniapi.RestartGrace)
		}, "does not answer"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, cni := newRig(t), newPlugin(t, dir)
			r.ready = tc.ready
			tc.then(t, cni, cni.serve(t, r))
			err := cni.GetStatusNetworkList(t.Context(), cni.list(t, "1.1.0"))
			if tc.want == "" && err != nil {
				t.Errorf("STATUS: %v", err)
			}
			var coded *types.Error
			if tc.want != "" && (!errors.As(err, &coded) || coded.Code != cniapi.CodeUnavailable || !strings.Contains(coded.Msg, tc.want)) {
				t.Errorf("STATUS: %v, want code %d with %q", err, cniapi.CodeUnavailable, tc.want)
			}
		})
	}
}

// hang listens in the daemon's place and answers nothing until the test ends.
func hang(t *testing.T, cni plugin) {
	t.Helper()
	l, err := cniserver.Listen(cni.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ctx.Done() })}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() {
		end()
		_ = srv.Close()
	})
}
