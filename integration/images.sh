#!/usr/bin/env bash
# Builds .cache/images.tar, an OCI archive with three images that share one layer of one static
# program: the sandbox image, the test image, and the test image as CUDA images are, with
# NVIDIA_VISIBLE_DEVICES=all in its own environment. No registry, no network.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

registry=maitred.test   # a registry name that does not exist, so nothing ever tries to pull it
layout=$cache/images

# blob FILE: moves FILE into the layout, prints `"digest":…,"size":…` for a descriptor.
blob() {
    local sum size
    sum=$(sha256sum "$1" | cut -d' ' -f1)
    size=$(stat -c %s "$1")
    mv "$1" "$layout/blobs/sha256/$sum"
    printf '"digest":"sha256:%s","size":%s' "$sum" "$size"
}

# image NAME ENV: adds an image of the layer, prints its entry of index.json.
image() {
    local config manifest
    printf '{"architecture":"amd64","os":"linux","config":{"Entrypoint":["/tenant"],"Cmd":["pause"],"Env":[%s]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
        "$2" "$diff_id" >"$layout/config"
    config=$(blob "$layout/config")
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json",%s},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar",%s}]}' \
        "$config" "$layer" >"$layout/manifest"
    manifest=$(blob "$layout/manifest")
    printf '{"mediaType":"application/vnd.oci.image.manifest.v1+json",%s,"platform":{"architecture":"amd64","os":"linux"},"annotations":{"io.containerd.image.name":"%s/%s"}}' \
        "$manifest" "$registry" "$1"
}

build() {
    rm -rf "$layout"
    mkdir -p "$layout/blobs/sha256" "$layout/files"/{proc,sys,dev,etc,tmp}
    rustc --edition 2024 -C opt-level=s -C strip=symbols -C target-feature=+crt-static \
        -o "$layout/files/tenant" "$integration/images/tenant.rs"
    tar -C "$layout/files" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$layout/layer" .
    rm -rf "$layout/files"
    diff_id=$(sha256sum "$layout/layer" | cut -d' ' -f1)
    layer=$(blob "$layout/layer")
    printf '{"schemaVersion":2,"manifests":[%s,%s,%s]}' \
        "$(image pause:1 '')" "$(image tenant:1 '')" "$(image cuda:1 '"NVIDIA_VISIBLE_DEVICES=all"')" >"$layout/index.json"
    printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
    tar -C "$layout" -cf "$cache/images.tar.new" oci-layout index.json blobs
    mv "$cache/images.tar.new" "$cache/images.tar"
    rm -rf "$layout"
}

step images "$0" "$integration/images/tenant.rs" -- build
