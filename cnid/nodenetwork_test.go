// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	conditions "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/cnid/cluster/subscriptions"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/kinds/nmstateapi"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// TestNodeNetwork_EachMode_ModulesAndKindsMatch looks at the kinds and modules of a daemon with and
// without the area.
func TestNodeNetwork_EachMode_ModulesAndKindsMatch(t *testing.T) {
	state, all := []string{"NodeNetworkState"}, []string{}
	for _, kind := range nmstateapi.All() {
		all = append(all, kind.Name)
	}
	for name, c := range map[string]struct {
		change         func(*Config)
		modules, kinds []string
	}{
		"off":         {func(*Config) {}, nil, nil},
		"distributed": {func(c *Config) { c.NodeNetworkState = true }, []string{"node network state", "node network policies"}, all},
		"centralized": {func(c *Config) { c.NodeNetworkState, c.NetworkPolicyMode = true, PoliciesCentralized }, []string{"node network state"}, state},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, "node1")
			c.change(&m.cfg)
			d := newIdleDaemon(t, m)
			sources := subscriptions.New(subscriptions.Config{Node: "node1", Kinds: d.cfg.Kinds()}, nil, nil, d.store, d.journal, d.log)
			own, err := d.networkModules(nil, sources, nil)
			if err != nil {
				t.Fatal(err)
			}
			var names, followed []string
			for _, module := range own {
				names = append(names, module.name)
			}
			for _, kind := range d.cfg.Kinds() {
				if slices.ContainsFunc(nmstateapi.All(), func(other *descriptor.Kind) bool { return kind == other }) {
					followed = append(followed, kind.Name)
				}
			}
			if diff := cmp.Diff(c.modules, names); diff != "" {
				t.Errorf("modules (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.kinds, followed); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
			// One is followed in place of Services alone.
			if others := len(kinds.All()) - len(all) - 1; len(d.cfg.Kinds()) != others+len(c.kinds) {
				t.Errorf("%d kinds are followed, %d of them of other areas", len(d.cfg.Kinds()), others)
			}
		})
	}
}

// stateAPI has the NodeNetworkState of one node, which a store follows.
type stateAPI struct {
	store *store.Store

	mu     sync.Mutex
	object *v1beta1.NodeNetworkState
}

func (a *stateAPI) Get(_ context.Context, obj kube.Object) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.object == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "nodenetworkstates"}, obj.GetName())
	}
	a.object.DeepCopyInto(obj.(*v1beta1.NodeNetworkState))
	return nil
}

func (a *stateAPI) Create(_ context.Context, obj kube.Object) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	obj.SetUID("uid")
	obj.SetGeneration(1)
	a.object = obj.(*v1beta1.NodeNetworkState).DeepCopy()
	return a.follow()
}

// follow puts the object into the store; called with mu held.
func (a *stateAPI) follow() error {
	row, err := nmstateapi.NodeNetworkState.Convert(a.object)
	if err != nil {
		return err
	}
	return a.store.Update(func(tx store.Tx) error { return nmstate.PutState(tx, row) })
}

func (a *stateAPI) Patch(_ context.Context, _ kube.Object, _ types.PatchType, data []byte, _ ...string) error {
	var steps []struct {
		Path  string
		Value json.RawMessage
	}
	if err := json.Unmarshal(data, &steps); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, step := range steps {
		if step.Path == "/status" {
			a.object.Status = v1beta1.NodeNetworkStateStatus{}
			return errors.Join(json.Unmarshal(step.Value, &a.object.Status), a.follow())
		}
	}
	return errors.New("no status")
}

// has returns an error unless a condition is true with a reason.
func (a *stateAPI) has(kind, reason string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.object == nil {
		return errors.New("there is no object")
	}
	if c := conditions.FindStatusCondition(a.object.Status.Conditions, kind); c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason {
		return fmt.Errorf("the conditions are %+v", a.object.Status.Conditions)
	}
	return nil
}

// TestNodeNetwork_Daemon_StateReported begins with a folder of transactions that can't be
// made, so that the network can't be opened.
func TestNodeNetwork_Daemon_StateReported(t *testing.T) {
	m := newMachine(t, "node1")
	m.cfg.NodeNetworkState = true
	m.cfg.DelegationHost = HostParent // A test may not see the files of the machine's first process.
	d := newIdleDaemon(t, m)
	if err := os.WriteFile(d.cfg.networkStateDir(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	api := &stateAPI{store: d.store}
	k, err := d.networkRunner(api, broadcast.Open, nil)
	if err != nil {
		t.Fatal(err)
	}
	area := d.networkStateModule(k)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, loop := range area.loops {
		running.Go(func() { testnet.In(t, m, func() error { loop(ctx); return nil }) })
	}
	defer running.Wait()
	defer cancel()
	eventually(t, "the failure is reported", func() error { return api.has(nmstatev1.FailingCondition, nmstatev1.FailedToConfigureReason) })
	if err := os.Remove(d.cfg.networkStateDir()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the network is reported", func() error { return api.has(nmstatev1.AvailableCondition, nmstatev1.SuccessfullyConfiguredReason) })
	if text := string(api.object.Status.CurrentState.Raw); !strings.Contains(text, `"name":"lo"`) {
		t.Errorf("the current state is %s", text)
	}
	current, err := k.Current(t.Context())
	if list, ok := current["interfaces"].([]any); err != nil || !ok || len(list) == 0 {
		t.Errorf("the policies see %v, %v", current, err)
	}
}
