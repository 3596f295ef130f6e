// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/cni/cniapi"
)

func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "alioth-cniapi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// daemon answers every connection with h.
func daemon(t *testing.T, h http.HandlerFunc) cniapi.Client {
	t.Helper()
	path := socketPath(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+cniapi.PathV1, h)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	return cniapi.Client{Socket: path}
}

func code(err error) uint {
	var coded *types.Error
	if errors.As(err, &coded) {
		return coded.Code
	}
	return 0
}

func TestAPIClient_EachRequest_ArrivesUnchanged(t *testing.T) {
	want := cniapi.Request{
		Command: "ADD", ContainerID: "c1", Netns: "/run/netns/x", IfName: "eth0", Args: "A=b;C=d", Path: "/opt/cni/bin",
		Config: []byte("{ \"any\":\t1 } \x00 not even JSON"),
	}
	var got cniapi.Request
	client := daemon(t, func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		_, _ = w.Write([]byte(`{"result": {"ips": []}, "aFieldOfTomorrow": 1}`))
	})
	result, err := client.Do(t.Context(), want)
	if err != nil || string(result) != `{"ips": []}` {
		t.Errorf("result %q, %v", result, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestAPIClient_DaemonError_Returned(t *testing.T) {
	client := daemon(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"error": {"code": 11, "msg": "network is not ready - subnet net1 is full"}}`))
	})
	for _, command := range []string{"ADD", "DEL", "CHECK", "GC", "STATUS"} {
		_, err := client.Do(t.Context(), cniapi.Request{Command: command})
		if code(err) != cniapi.CodeNotReady || err.Error() != "network is not ready - subnet net1 is full" {
			t.Errorf("%s: %v", command, err)
		}
	}
}

func TestAPIClient_OtherReleaseDaemon_TryAgainCode(t *testing.T) {
	client := daemon(t, func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) })
	for _, command := range []string{"ADD", "DEL"} {
		_, err := client.Do(t.Context(), cniapi.Request{Command: command})
		if code(err) != cniapi.CodeNotReady || !strings.Contains(err.Error(), "different releases") {
			t.Errorf("%s: %v", command, err)
		}
	}
}

func TestAPIClient_InvalidAnswer_Error(t *testing.T) {
	client := daemon(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })
	if _, err := client.Do(t.Context(), cniapi.Request{Command: "DEL"}); code(err) != types.ErrDecodingFailure {
		t.Errorf("got %v", err)
	}
}

// away returns a client whose daemon is away and wrote the given state that long
// ago; a state that change makes of it.
func away(t *testing.T, ago time.Duration, change func(*cniapi.State)) cniapi.Client {
	t.Helper()
	client := cniapi.Client{Socket: socketPath(t)}
	leaveState(t, client, ago, change)
	return client
}

func leaveState(t *testing.T, client cniapi.Client, ago time.Duration, change func(*cniapi.State)) {
	t.Helper()
	now, err := cniapi.Now()
	if err != nil {
		t.Fatal(err)
	}
	state := cniapi.State{Alive: cniapi.Instant{Boot: now.Boot, Uptime: now.Uptime - ago}}
	if change != nil {
		change(&state)
	}
	if err := cniapi.WriteState(client.Socket, state); err != nil {
		t.Fatal(err)
	}
}

func TestAPIClient_DaemonDown_EachCommandAnswered(t *testing.T) {
	gone := func(ago time.Duration, change func(*cniapi.State)) func(*testing.T) cniapi.Client {
		return func(t *testing.T) cniapi.Client { return away(t, ago, change) }
	}
	for _, tc := range []struct {
		name   string
		client func(*testing.T) cniapi.Client
		status uint
		text   string
	}{
		{"never there", func(t *testing.T) cniapi.Client { return cniapi.Client{Socket: socketPath(t)} }, cniapi.CodeUnavailable, "does not answer"},
		{"just gone", gone(0, nil), 0, ""},
		{"gone for as long as a restart takes", gone(cniapi.RestartGrace-cniapi.HeartbeatInterval, nil), 0, ""},
		{"gone for longer", gone(cniapi.RestartGrace+cniapi.HeartbeatInterval, nil), cniapi.CodeUnavailable, "does not answer"},
		{"gone with the last boot", gone(0, func(s *cniapi.State) { s.Alive.Boot = "another" }), cniapi.CodeUnavailable, "does not answer"},
		{"a time that is still to come", gone(-time.Hour, nil), cniapi.CodeUnavailable, "does not answer"},
		{"not able to attach pods when it went", gone(0, func(s *cniapi.State) { s.Unavailable = "no pod: no TCX" }), cniapi.CodeUnavailable, "no TCX"},
		{"a state that is none", func(t *testing.T) cniapi.Client {
			client := away(t, 0, nil)
			if err := os.WriteFile(client.Socket+".state", []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
			return client
		}, cniapi.CodeUnavailable, "does not answer"},
		{"gone while at work", func(t *testing.T) cniapi.Client {
			client := daemon(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
			leaveState(t, client, 0, nil)
			return client
		}, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client := tc.client(t)
			for command, want := range map[string]uint{
				"ADD": cniapi.CodeNotReady, "CHECK": cniapi.CodeNotReady, "GC": cniapi.CodeNotReady, "DEL": 0, "STATUS": tc.status,
			} {
				result, err := client.Do(t.Context(), cniapi.Request{Command: command})
				if code(err) != want || (want == 0) != (err == nil) || len(result) != 0 {
					t.Errorf("%s: got %q, %v, want code %d", command, result, err, want)
				}
				if command == "ADD" && !strings.HasPrefix(err.Error(), "network is not ready - alioth-cnid on this node does not answer at "+client.Socket) {
					t.Errorf("ADD: %v", err)
				}
				if command == "STATUS" && err != nil && !strings.Contains(err.Error(), tc.text) {
					t.Errorf("STATUS: %v, want %q", err, tc.text)
				}
			}
		})
	}
}

func TestSTATUS_DaemonHangs_ReturnsEarly(t *testing.T) {
	hangs := func(ago time.Duration) cniapi.Client {
		client := daemon(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		leaveState(t, client, ago, nil)
		return client
	}
	// Both answers come while the daemon still hangs.
	if _, err := hangs(0).Do(t.Context(), cniapi.Request{Command: "STATUS"}); err != nil {
		t.Errorf("it was alive just now: %v", err)
	}
	if _, err := hangs(2*cniapi.RestartGrace).Do(t.Context(), cniapi.Request{Command: "STATUS"}); code(err) != cniapi.CodeUnavailable {
		t.Errorf("it was alive two minutes ago: %v", err)
	}
}

func TestAPIClient_CommandTimeout_NotReportedAsMissing(t *testing.T) {
	client := daemon(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := client.Do(ctx, cniapi.Request{Command: "DEL"}); code(err) != cniapi.CodeNotReady {
		t.Errorf("got %v: the runtime would take the attachment for removed", err)
	}
}

func TestAPIClient_Configuration_SocketPathTaken(t *testing.T) {
	for config, want := range map[string]string{
		`{"socket": "/run/other.sock"}`: "/run/other.sock",
		`{"socket": ""}`:                cniapi.DefaultSocket,
		`{"name": "alioth"}`:            cniapi.DefaultSocket,
		`no JSON`:                       cniapi.DefaultSocket,
	} {
		if got := cniapi.SocketIn([]byte(config)); got != want {
			t.Errorf("%s: got %s, want %s", config, got, want)
		}
	}
}
