// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/alioth-net/alioth/test/cluster/pki"
)

// The users and groups that Kubernetes' own RBAC rules name.
const (
	groupMasters = "system:masters"
	groupNodes   = "system:nodes"
)

// WriteFiles makes every key, certificate and kubeconfig of the control plane
// that does not exist yet. nodes maps each node's name to its addresses.
func (p Plane) WriteFiles(nodes map[string][]netip.Addr) error {
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the control plane: %w", err)
	}
	authority, err := p.authority()
	if err != nil {
		return err
	}
	if err := p.writeTokenKey(); err != nil {
		return err
	}
	server := pki.Identity{
		Name: "kube-apiserver", IPs: []net.IP{p.Address.AsSlice(), p.kubernetesVIP().AsSlice(), net.IPv4(127, 0, 0, 1)},
		DNSNames: []string{
			"kubernetes",
			"kubernetes.default",
			"kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local",
		},
	}
	clients := []pki.Identity{
		{Name: "kube-apiserver-kubelet-client", Groups: []string{groupMasters}},
		{Name: "system:kube-controller-manager"},
		{Name: "system:kube-scheduler"},
		{Name: "kubernetes-admin", Groups: []string{groupMasters}},
	}
	for _, id := range append(clients, server) {
		if err := p.issue(authority, id); err != nil {
			return err
		}
	}
	for name, ips := range nodes {
		id := pki.Identity{Name: "system:node:" + name, Groups: []string{groupNodes}, DNSNames: []string{name}}
		for _, ip := range ips {
			id.IPs = append(id.IPs, ip.AsSlice())
		}
		if err := p.issue(authority, id); err != nil {
			return err
		}
	}
	return nil
}

// kubernetesVIP returns the first address of the first service range, which the API
// server takes for its own Service.
func (p Plane) kubernetesVIP() netip.Addr { return p.ServiceRanges[0].Addr().Next() }

// authority loads the cluster's authority or makes it.
func (p Plane) authority() (*pki.Authority, error) {
	cert, err1 := os.ReadFile(p.AuthorityFile())
	key, err2 := os.ReadFile(p.path("ca.key"))
	if err := errors.Join(err1, err2); err == nil {
		return pki.LoadAuthority(cert, key)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	authority, err := pki.NewAuthority("alioth-lab")
	if err != nil {
		return nil, err
	}
	return authority, writePair(p.path("ca"), pki.Pair{Cert: authority.Cert, Key: authority.Key})
}

func (p Plane) writeTokenKey() error {
	if _, err := os.Stat(p.path("tokens.key")); err == nil {
		return nil
	}
	pair, err := pki.NewTokenKey()
	if err != nil {
		return err
	}
	return writePair(p.path("tokens"), pair)
}

// issue writes certificate, key and kubeconfig of id. The kubeconfig comes
// last: where it exists, all of them do.
func (p Plane) issue(authority *pki.Authority, id pki.Identity) error {
	if _, err := os.Stat(p.KubeconfigFile(id.Name)); err == nil {
		return nil
	}
	pair, err := authority.Issue(id)
	if err != nil {
		return err
	}
	if err := writePair(p.path(id.Name), pair); err != nil {
		return err
	}
	config, err := pki.Kubeconfig(p.URL(), id.Name, authority.Cert, pair)
	if err != nil {
		return err
	}
	return writeFile(p.KubeconfigFile(id.Name), config)
}

// writePair writes <base>.crt and <base>.key. The key comes last: where it
// exists, both do.
func writePair(base string, pair pki.Pair) error {
	if err := writeFile(base+".crt", pair.Cert); err != nil {
		return err
	}
	return writeFile(base+".key", pair.Key)
}

// writeFile writes a file that appears complete or not at all.
func writeFile(path string, content []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, content, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("name %s: %w", filepath.Base(path), err)
	}
	return nil
}
