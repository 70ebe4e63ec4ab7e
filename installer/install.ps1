# Installs gm on Windows: downloads this machine's newest build, checks it, and runs `gm install --local`.
#
#   irm <release>/install.ps1 | iex
#
# GMNEW_UPDATE_URL names another manifest (a mirror); GMNEW_INSTALL_ARGS are words for `gm install`.
# Nothing is left behind on failure.
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
Set-StrictMode -Version 3

function Install-Gm {
    $url = if ($env:GMNEW_UPDATE_URL) { $env:GMNEW_UPDATE_URL } else { '@UPDATE_URL@' }
    if ($url -notmatch '^https?://') {
        throw 'this copy of the script names no release; set GMNEW_UPDATE_URL to a manifest''s URL'
    }
    $target = switch ($env:PROCESSOR_ARCHITEW6432, $env:PROCESSOR_ARCHITECTURE | Where-Object { $_ } | Select-Object -First 1) {
        'AMD64' { 'windows-x64' }
        'ARM64' { 'windows-arm64' }
        default { throw "there are no builds for $_, only for x64 and arm64" }
    }
    $scratch = Join-Path ([IO.Path]::GetTempPath()) ('gm-install-' + [Guid]::NewGuid().ToString('N'))
    New-Item -ItemType Directory -Path $scratch | Out-Null
    try {
        $manifestFile = Join-Path $scratch 'manifest.json'
        Get-WithRetry $url $manifestFile
        $manifest = Get-Content -Raw -LiteralPath $manifestFile | ConvertFrom-Json
        if ($manifest.targets.PSObject.Properties.Name -notcontains $target) { throw "there is no build for $target" }
        $entry = $manifest.targets.$target
        if ($entry.file -match '[\\/]|\.\.') { throw "the manifest names a file elsewhere: $($entry.file)" }

        Write-Output "downloading $($entry.file)"
        $archive = Join-Path $scratch $entry.file
        Get-WithRetry ($url.Substring(0, $url.LastIndexOf('/') + 1) + $entry.file) $archive
        $found = (Get-FileHash -Algorithm SHA256 -LiteralPath $archive).Hash.ToLowerInvariant()
        if ($found -ne $entry.sha256) { throw "$($entry.file) is not the archive that the manifest names (sha256 $found)" }

        Expand-Archive -LiteralPath $archive -DestinationPath $scratch
        $build = Join-Path $scratch "gmnew-$target"
        $words = if ($env:GMNEW_INSTALL_ARGS) { $env:GMNEW_INSTALL_ARGS -split '\s+' } else { @() }
        & (Join-Path $build 'gm.exe') install --local $build @words
        if ($LASTEXITCODE -ne 0) { throw "gm install ended with $LASTEXITCODE" }
    }
    finally {
        Remove-Item -Recurse -Force -LiteralPath $scratch -ErrorAction SilentlyContinue
    }
}

# Four tries: the manifest is missing for about a second while it is replaced.
function Get-WithRetry([string] $Url, [string] $File) {
    for ($try = 1; ; $try++) {
        try {
            Invoke-WebRequest -UseBasicParsing -Uri $Url -OutFile $File
            return
        }
        catch {
            if ($try -ge 4) { throw "$Url cannot be downloaded: $($_.Exception.Message)" }
            Start-Sleep -Seconds $try
        }
    }
}

Install-Gm
