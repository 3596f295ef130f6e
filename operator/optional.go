// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/alioth-net/alioth/store/client/descriptor"
)

// missingEvery is the pause between two looks for kinds that the API lacked at the start of a term.
const missingEvery = 30 * time.Second

// optionalKinds knows which optional kinds the API has.
type optionalKinds interface {
	// has reports whether the API has a kind.
	has(kind *descriptor.Kind) (bool, error)
}

// managedKinds asks the API of a manager.
type managedKinds struct{ manager.Manager }

func (m managedKinds) has(kind *descriptor.Kind) (bool, error) {
	types, _, err := m.GetScheme().ObjectKinds(kind.Object)
	if err != nil {
		return false, fmt.Errorf("find the type of %s: %w", kind.Name, err)
	}
	_, err = m.GetRESTMapper().RESTMapping(types[0].GroupKind(), types[0].Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for %s in the API: %w", kind.Name, err)
	}
	return true, nil
}

// present separates the kinds that can be watched from the optional kinds that the API lacks. An
// informer of a missing kind would keep the whole operator from its start.
func present(all []*descriptor.Kind, api optionalKinds) (watched, missing []*descriptor.Kind, err error) {
	for _, kind := range all {
		there := true
		if kind.Optional {
			if there, err = api.has(kind); err != nil {
				return nil, nil, err
			}
		}
		if there {
			watched = append(watched, kind)
		} else {
			missing = append(missing, kind)
		}
	}
	return watched, missing, nil
}

// endWithKinds ends a term once the API has a kind that was missing at its start: the next
// one watches it.
func (p *process) endWithKinds(ctx context.Context, missing []*descriptor.Kind, api optionalKinds, end func()) {
	p.log.Error(
		"the API lacks kinds of this operator, which works without them: apply the CustomResourceDefinitions of the chart, or switch the area off (multiNetwork.enabled=false, nodeNetworkState.enabled=false, nodeIPAM.enabled=false)",
		"kinds",
		typesOf(missing),
	)
	ticker := time.NewTicker(missingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		i := slices.IndexFunc(missing, func(kind *descriptor.Kind) bool {
			there, err := api.has(kind)
			return there && err == nil // an error concerns the API, and the term finds it itself
		})
		if i >= 0 {
			p.log.Info("the API has a kind that was missing: starting again with it", "kind", typesOf(missing[i:i+1]))
			end()
			return
		}
	}
}

// typesOf names kinds with their API groups, which the Go types have in their packages.
func typesOf(kinds []*descriptor.Kind) []string {
	var names []string
	for _, kind := range kinds {
		names = append(names, fmt.Sprintf("%T", kind.Object))
	}
	return names
}
