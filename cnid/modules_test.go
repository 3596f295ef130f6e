// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/alioth-net/alioth/cnid/cluster/release"
	"github.com/alioth-net/alioth/cnid/cni/drivers"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
)

type releaseAtOnce struct {
	journal *journal.Journal
	held    *release.Held
}

func (r releaseAtOnce) Release(rec journal.Record) {
	if !r.held.Holds(rec) {
		_ = r.journal.Released(rec.Seq)
	}
}

// newIdleDaemon returns the daemon of a machine. No loop of the daemon runs.
func newIdleDaemon(t *testing.T, m *machine) (d *daemon) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	testnet.In(t, m, func() error {
		n, err := newNode(t.Context(), m.cfg, drivers.All(), log)
		if err != nil {
			return err
		}
		t.Cleanup(n.close)
		d = newDaemon(n, control{
			sources: readAlready{}, leftOut: readAlready{}, releaser: releaseAtOnce{n.journal, n.held}, reporter: logged{log}, announced: broadcast.Open,
		})
		return nil
	})
	return d
}

func TestModules_EachModule_OwnNameAndPaths(t *testing.T) {
	names, paths := map[string]bool{}, map[string]string{nodestatus.DumpPath: "the dump of all modules"}
	for _, m := range newIdleDaemon(t, newMachine(t, "node1")).modules() {
		if m.name == "" || names[m.name] {
			t.Errorf("a second module is called %q", m.name)
		}
		names[m.name] = true
		for path := range m.handlers {
			if paths[path] != "" {
				t.Errorf("%s is answered by %s and by %s", path, paths[path], m.name)
			}
			paths[path] = m.name
		}
	}
}

// TestDaemon_EachModule_PartsRun hands a daemon a module that it does not know.
func TestDaemon_EachModule_PartsRun(t *testing.T) {
	d := newIdleDaemon(t, newMachine(t, "node1"))
	looped, fail, failure := make(chan struct{}), make(chan struct{}), errors.New("can't go on")
	another := module{
		name:     "another",
		handlers: map[string]http.Handler{"/another": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "here") })},
		loops: []func(context.Context){func(ctx context.Context) {
			<-ctx.Done()
			close(looped)
		}},
		servers: []func(context.Context) error{func(context.Context) error {
			<-fail
			return failure
		}},
		dump: func(_ context.Context, dump *nodestatus.Dump) { dump.Unreadable = append(dump.Unreadable, "another") },
	}
	group, ctx := errgroup.WithContext(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx, group, []module{another}) }()
	eventually(t, "its handler answers at the daemon's socket", func() error {
		answer, err := getUnix(t, d.cfg.socket(), "/another")
		if err == nil && answer != "here" {
			err = fmt.Errorf("got %q", answer)
		}
		return err
	})
	if dump, err := nodestatus.FetchDump(t.Context(), d.cfg.socket()); err != nil || len(dump.Unreadable) != 1 {
		t.Errorf("a dump has %v of it, %v", dump.Unreadable, err)
	}
	close(fail)
	if err := <-ended; !errors.Is(err, failure) {
		t.Errorf("the daemon ends with %v, want %v", err, failure)
	}
	<-looped
}

func getUnix(t *testing.T, socket, path string) (string, error) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://daemon"+path, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}
