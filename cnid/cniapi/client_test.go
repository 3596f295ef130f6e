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

	"github.com/alioth-net/alioth/cnid/cniapi"
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

func TestARequestArrivesAsItWasSent(t *testing.T) {
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

func TestAnErrorOfTheDaemonIsHandedOn(t *testing.T) {
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

func TestADaemonOfAnotherReleaseMeansTryAgain(t *testing.T) {
	client := daemon(t, func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) })
	for _, command := range []string{"ADD", "DEL"} {
		_, err := client.Do(t.Context(), cniapi.Request{Command: command})
		if code(err) != cniapi.CodeNotReady || !strings.Contains(err.Error(), "different releases") {
			t.Errorf("%s: %v", command, err)
		}
	}
}

func TestAnAnswerThatIsNoneIsAnError(t *testing.T) {
	client := daemon(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })
	if _, err := client.Do(t.Context(), cniapi.Request{Command: "DEL"}); code(err) != types.ErrDecodingFailure {
		t.Errorf("got %v", err)
	}
}

func TestEachCommandHasItsAnswerWhileNoDaemonDoes(t *testing.T) {
	noSocket := func(t *testing.T) cniapi.Client { return cniapi.Client{Socket: socketPath(t)} }
	// dead is the socket of a daemon that was killed that long ago.
	dead := func(ago time.Duration) func(*testing.T) cniapi.Client {
		return func(t *testing.T) cniapi.Client {
			path := socketPath(t)
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			now := time.Now()
			if err := errors.Join(l.Close(), os.Chtimes(path, now, now)); err != nil {
				t.Fatal(err)
			}
			return cniapi.Client{Socket: path, Now: func() time.Time { return now.Add(ago) }}
		}
	}
	hangsUp := func(t *testing.T) cniapi.Client {
		return daemon(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	}
	for _, tc := range []struct {
		name   string
		client func(*testing.T) cniapi.Client
		status uint
	}{
		{"never there", noSocket, cniapi.CodeUnavailable},
		{"just gone", dead(0), 0},
		{"gone for a minute", dead(time.Minute), 0},
		{"gone for longer than a restart", dead(cniapi.RestartGrace + cniapi.HeartbeatInterval), cniapi.CodeUnavailable},
		{"a clock that was set back", dead(-time.Hour), 0},
		{"gone while at work", hangsUp, 0},
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
			}
		})
	}
}

func TestACommandThatTakesTooLongIsNoMissingDaemon(t *testing.T) {
	client := daemon(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := client.Do(ctx, cniapi.Request{Command: "DEL"}); code(err) != cniapi.CodeNotReady {
		t.Errorf("got %v: the runtime would take the attachment for removed", err)
	}
}

func TestTheSocketComesFromTheConfiguration(t *testing.T) {
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
