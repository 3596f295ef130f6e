// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// operationsAtOnce is the most that etcd takes in one transaction.
const operationsAtOnce = 128

// entry is an object as the API server stores it. The JSON form is the form of etcd's gateway, with
// keys and values in base64.
type entry struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

// stored returns a pod and its Address as the API server stores them; it reads built-in
// kinds in JSON too.
func stored(pod *corev1.Pod, address *v1alpha1.Address) ([]entry, error) {
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	address.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Address"}
	of, err := json.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("encode pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	its, err := json.Marshal(address)
	if err != nil {
		return nil, fmt.Errorf("encode Address %s: %w", address.Name, err)
	}
	return []entry{
		{Key: []byte("/registry/pods/" + pod.Namespace + "/" + pod.Name), Value: of},
		{Key: []byte("/registry/" + v1alpha1.GroupVersion.Group + "/addresses/" + address.Name), Value: its},
	}, nil
}

// writeStored writes objects into etcd itself. By requests to the API server, the objects of the
// largest lab would take longer than all that is measured.
func writeStored(ctx context.Context, etcd string, entries []entry) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(connections)
	for part := range slices.Chunk(entries, operationsAtOnce) {
		group.Go(func() error { return writePart(ctx, etcd, part) })
	}
	return group.Wait()
}

func writePart(ctx context.Context, etcd string, entries []entry) error {
	type operation struct {
		Put entry `json:"requestPut"`
	}
	var transaction struct {
		Success []operation `json:"success"`
	}
	for _, e := range entries {
		transaction.Success = append(transaction.Success, operation{e})
	}
	body, err := json.Marshal(transaction)
	if err != nil {
		return fmt.Errorf("encode a transaction: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, etcd+"/v3/kv/txn", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("write %d objects into etcd: %w", len(entries), err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("write %d objects into etcd: %w", len(entries), err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("write %d objects into etcd: read the answer: %w", len(entries), err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("write %d objects into etcd: answer %d %q", len(entries), response.StatusCode, answer)
	}
	return nil
}
