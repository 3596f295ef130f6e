// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/alioth-net/alioth/cnid/cni/cniserver"
	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/cnid/nodeipam/answer"
	"github.com/alioth-net/alioth/cnid/nodeipam/client"
	"github.com/alioth-net/alioth/cnid/nodeipam/endpoints"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
	"github.com/alioth-net/alioth/store"
)

// served is the API at a socket, with a journal on disk.
type served struct {
	*node
	client.Client
}

func serve(t *testing.T, pods int) *served {
	t.Helper()
	n := newNode(t)
	err := n.store.Update(func(tx store.Tx) error {
		for i := range pods {
			name := fmt.Sprintf("p%d", i+1)
			if err := store.PutPod(tx, &store.Pod{Meta: testrows.Meta("uid-" + name), Namespace: "a", Name: name, Node: "node1"}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	states, err := endpoints.Open(filepath.Join(dir, "endpoints"), log)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	listener, err := cniserver.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	config := rest.Config{Service: n.Service, Endpoints: states, Node: func() answer.Node { return answer.Node{} }, Log: log}
	server := &http.Server{Handler: rest.New(config).Handler(rest.Place{Socket: true, Patience: rest.SocketPatience})}
	go func() { _ = server.Serve(listener) }() // it ends with Close
	t.Cleanup(func() { _ = server.Close() })
	return &served{node: n, Client: client.Client{Socket: socket}}
}

func asked(i int) wire.IPConfigsRequest {
	who, _ := json.Marshal(map[string]string{"PodName": fmt.Sprintf("p%d", i), "PodNamespace": "a"}) // strings alone
	id := fmt.Sprintf("sandbox%d", i)
	return wire.IPConfigsRequest{InfraContainerID: id, PodInterfaceID: id + "-eth0", Ifname: "eth0", OrchestratorContext: who}
}

// each runs requests of pods 1 to n, so many at a time.
func (s *served) each(t *testing.T, n, together int, do func(ctx context.Context, i int) error) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(together)
	for i := range n {
		group.Go(func() error {
			if err := do(t.Context(), i+1); err != nil {
				t.Errorf("pod %d: %v", i+1, err)
			}
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
}

func (s *served) request(ctx context.Context, i int) error {
	entries, err := s.Request(ctx, asked(i))
	if err == nil && len(entries) != 1 {
		err = fmt.Errorf("got %+v", entries)
	}
	return err
}
