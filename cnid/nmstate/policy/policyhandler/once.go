// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyhandler

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds/nmstateapi"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// errNoKind reports that the API server lacks a kind.
var errNoKind = errors.New("the API server does not have the kinds of node network states")

// Once brings policies to some nodes, and grants slots for all, until nothing is left to write:
// usually until state handlers have to act. It needs no Store: it reads all objects anew before
// each pass over the nodes or the policies. It returns the error of the last pass, or the error
// of ctx if ctx ends before.
func Once(ctx context.Context, cfg Config, nodes []string) error {
	api := requestsOf(cfg.API)
	cfg.API = api
	for {
		before := api.written.Load()
		err := round(ctx, cfg, nodes)
		switch {
		case ctx.Err() != nil:
			return errors.Join(ctx.Err(), err)
		case api.written.Load() != before:
		case isStale(err): // another process writes the same objects
			if err := pauseOrEnd(ctx); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// pauseOrEnd waits for retryAfter, and fails if ctx ends before.
func pauseOrEnd(ctx context.Context) error {
	timer := time.NewTimer(retryAfter)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// round makes one pass for each node, and then one for each policy.
func round(ctx context.Context, cfg Config, nodes []string) error {
	var failed several
	cfg, err := withRows(ctx, cfg)
	if err != nil {
		return err
	}
	handler := NewHandler(cfg)
	for _, node := range nodes {
		var r rows
		cfg.Store.View(func(tx store.ReadTx) { r = readRows(tx, node) })
		_, err := handler.pass(ctx, node, r)
		failed.add(err)
	}
	if cfg, err = withRows(ctx, cfg); err != nil {
		return err
	}
	rollouts := NewRollouts(cfg)
	for _, ref := range references(cfg.Store) {
		_, err := rollouts.pass(ctx, ref)
		failed.add(err)
	}
	return failed.err()
}

// references are the policies that exist, and those that have enactments.
func references(rows *store.Store) []nmstate.Reference {
	var list []nmstate.Reference
	seen := map[nmstate.Reference]bool{}
	add := func(ref nmstate.Reference) {
		if !seen[ref] {
			list, seen[ref] = append(list, ref), true
		}
	}
	rows.View(func(tx store.ReadTx) {
		for row := range nmstate.Policies(tx) {
			add(row.Spec.Reference)
		}
		for row := range nmstate.Enactments(tx) {
			add(row.Policy)
		}
	})
	return list
}

// withRows returns the configuration with a store that has what the API server has now.
func withRows(ctx context.Context, cfg Config) (Config, error) {
	var err error
	if cfg.Store, err = store.New(); err != nil {
		return cfg, err
	}
	// Enactments come first: a policy that is made after it was listed would else seem to be
	// gone on nodes that have its enactment already.
	for _, kind := range []*descriptor.Kind{
		nmstateapi.NodeNetworkConfigurationEnactment.Kind, nmstateapi.NodeNetConfPolicy.Kind,
		nmstateapi.NodeNetworkConfigurationPolicy.Kind, nmstateapi.NodeNetworkState.Kind,
	} {
		list := kind.NewList()
		err := cfg.API.List(ctx, list, "", "")
		if apierrors.IsNotFound(err) {
			return cfg, fmt.Errorf(
				"%w: install the CRD of %s, for example with the chart's value nodeNetworkState.enabled",
				errNoKind,
				kind.Name,
			)
		}
		if err != nil {
			return cfg, fmt.Errorf("list objects of kind %s: %w", kind.Name, err)
		}
		if err := putAll(cfg.Store, kind, list); err != nil {
			return cfg, fmt.Errorf("read objects of kind %s: %w", kind.Name, err)
		}
	}
	return cfg, nil
}

func putAll(rows *store.Store, kind *descriptor.Kind, list kube.List) error {
	return rows.Update(func(tx store.Tx) error {
		return meta.EachListItem(list, func(item runtime.Object) error {
			object, ok := item.(kube.Object)
			if !ok {
				return fmt.Errorf("unexpected item %T", item)
			}
			row, err := kind.Row(object)
			if err != nil || row == nil {
				return err
			}
			return kind.Put(tx, row)
		})
	})
}
